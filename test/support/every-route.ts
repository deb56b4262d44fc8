import type { FastifyInstance, InjectOptions } from 'fastify'
import { ADMIN_TOKEN, KEY_SERVICE_TOKEN } from './console.ts'
import { CONSOLE, SESSION_COOKIE, type SignedIn, startSignIn } from './signed-in.ts'

const METHODS = ['GET', 'POST', 'PUT', 'PATCH'] as const

/** A page, a call of the admin API or one of the key service. */
export interface Route {
  readonly kind: 'page' | 'admin' | 'leaks' | 'internal'
  readonly app: FastifyInstance
  readonly method: (typeof METHODS)[number]
  readonly url: string
}

export type EveryRoute = Awaited<ReturnType<typeof startWithEveryRoute>>

/** A console with all that settings can switch on, an administrator, and every route; new ones are included automatically. */
export async function startWithEveryRoute(databaseUrl: string) {
  const running = await startSignIn({
    databaseUrl,
    leaks: { enabled: true },
    workspaceWebhooks: { enabled: true },
    signIn: { oidc: { administratorClaim: 'roles', administratorValue: 'admin' } },
  })
  const routes: Route[] = []
  for (const app of [running.app, running.internal]) {
    app.addHook('onRoute', ({ method, url }) => {
      // What has several methods is the refusal of those that a path does not have.
      const known = METHODS.find(one => one === method)
      if (known !== undefined) routes.push({ kind: kindOf(url), app, method: known, url })
    })
    await app.ready()
  }
  const person = await running.signedIn({ sub: 'ada', workspaces: ['ws_1'], roles: ['admin'] })
  return { ...running, routes, person, sendTo: senderFor(person) }
}

function kindOf(url: string): Route['kind'] {
  const [, kind] = /^\/(admin|leaks|internal)\b/.exec(url) ?? []
  return kind === 'admin' || kind === 'leaks' || kind === 'internal' ? kind : 'page'
}

/** As a person, a program or a gateway would. */
function senderFor({ browser }: SignedIn) {
  return ({ kind, app, method }: Route, url: string, more: InjectOptions = {}) => {
    const session = browser.cookie(SESSION_COOKIE)?.value ?? ''
    const tokens = { admin: ADMIN_TOKEN, internal: KEY_SERVICE_TOKEN, leaks: '' }
    const headers =
      kind === 'page'
        ? { host: new URL(CONSOLE).host, origin: CONSOLE, cookie: `${SESSION_COOKIE}=${session}` }
        : { authorization: `Bearer ${tokens[kind]}` }
    return app.inject({ method, url, ...more, headers: { ...headers, ...more.headers } })
  }
}

/** @param values of path parameters by their names */
export function pathOf({ url }: Route, values: Readonly<Record<string, string>>): string {
  return url.replace(/:(\w+)/g, (_, name: string) => values[name] ?? 'x').replace('*', 'x')
}
