import type { FastifyInstance } from 'fastify'
import { plainPasted } from '../domain/form/text.ts'
import { holdsKeyForm } from '../domain/key/secret.ts'
import type { Metrics } from '../observability/metrics/metrics.ts'
import { ADMIN_CALLS, ADMIN_PREFIX } from './api-reference/admin-api.ts'
import type { AccessAudit } from './platform/audit/access-audit.ts'
import type { Capability, ConsoleContext } from './platform/capability.ts'
import { registerAssets } from './platform/html/layout.ts'
import { usePageErrors, usePageNotFound } from './platform/html/page-errors.ts'
import { readQuery } from './platform/html/page-request.ts'
import { FIND_KEY, isKeyCursor, SIGN_IN_CALLBACK } from './platform/html/paths.ts'
import { AcceptedTokens, admitPrincipals, createAddressLimit } from './platform/http/authenticate-programs.ts'
import { mountCalls } from './platform/http/calls.ts'
import { createConsoleServer } from './platform/http/console-server.ts'
import { readForms } from './platform/http/read-bodies.ts'
import type { SignIn } from './sign-in/index.ts'
import type { AdminTokens } from './tokens/index.ts'

interface PublicServerParts {
  readonly capabilities: readonly Capability[]
  readonly signIn: SignIn
  readonly tokens: AdminTokens
  readonly accessAudit: AccessAudit
}

/** The listener for people and programs: pages, sign-in and the admin API. It does not listen yet. */
export function createPublicServer(context: ConsoleContext, parts: PublicServerParts): FastifyInstance {
  const { config, metrics, logger, secrets } = context
  const { capabilities, signIn, tokens, accessAudit } = parts
  const app = createConsoleServer({
    ...context,
    listener: 'console',
    keyPrefix: config.keys.prefix,
    trustedProxies: config.console.trustedProxies,
    limits: config.console,
    tls: null,
  })
  countFromZero(metrics)
  for (const { registerOpen } of capabilities) registerOpen?.(app)
  void app.register(async scope => {
    await signIn.authenticate(scope)
    accessAudit.watch(scope)
    const admit = admitPrincipals({
      operatorTokens: new AcceptedTokens({
        ...context,
        setting: 'console.adminToken',
        tokens: () => secrets.value.adminTokens,
      }),
      tokens,
      limit: createAddressLimit(config.console.failedTokensPerMinute, context.randomBytes),
    })
    const calls = capabilities.flatMap(capability => capability.calls ?? [])
    mountCalls(scope, { prefix: ADMIN_PREFIX, admit, unknownPath: 'not_found' }, calls)
    void scope.register(async pages => {
      readForms(pages)
      usePageErrors(pages, { clock: context.clock, logger })
      usePageNotFound(pages)
      keepKeysOutOfAddresses(pages, config.keys.prefix)
      registerAssets(pages)
      for (const { registerPages } of capabilities) registerPages?.(pages)
    })
  })
  return app
}

/**
 * A key that was pasted into a search: a redirect leaves no entry in the browser's history. With a prefix of one or two letters, what a
 * provider answers and where a list of keys goes on would look like a key as well.
 */
function keepKeysOutOfAddresses(pages: FastifyInstance, keyPrefix: string): void {
  pages.addHook('preHandler', async (request, reply) => {
    if (request.method === 'POST' || request.routeOptions.url === SIGN_IN_CALLBACK) return
    const sent = Object.values(readQuery(request)).flatMap((text = '') => text)
    if (sent.some(text => !isKeyCursor(text) && holdsKeyForm(plainPasted(text), keyPrefix))) {
      await reply.redirect(FIND_KEY, 303)
    }
  })
}

/** An alert on a rate fires on the first request. */
function countFromZero(metrics: Metrics): void {
  for (const { operation, status } of ADMIN_CALLS) {
    for (const code of [String(status), '500']) metrics.adminRequests.inc({ operation, code }, 0)
  }
}
