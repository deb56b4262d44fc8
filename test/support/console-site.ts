import { randomBytes } from 'node:crypto'
import type { Config } from '../../src/config/schema/schema.ts'
import type { Announcer } from '../../src/console/announcing/announcer.ts'
import { createConsole } from '../../src/console/app.ts'
import { createOneTimeLink } from '../../src/console/sign-in/one-time-link.ts'
import type { Clock } from '../../src/domain/clock.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { configOf } from '../config/examples.ts'
import { ADMIN_TOKEN, consoleConfig, KEY_SERVICE_TOKEN } from './console.ts'
import { freePort } from './free-port.ts'
import { CLIENT_ID, CLIENT_SECRET, IdentityProvider } from './identity-provider.ts'
import { silentLogger } from './silent-logger.ts'
import { UNWATCHED_PARTS } from './unwatched-parts.ts'

export const GATEWAY_URL = 'https://api.example.com'

const WEBHOOK_SECRET = Buffer.alloc(32, 9).toString('base64')

export interface ConsoleSiteOptions {
  readonly redisUrl?: string
  /** Default: in memory. */
  readonly databaseUrl?: string
  readonly clock?: Clock
  readonly gatewayUrl?: string | null
  /** The port of a proxy before the console; default: none. */
  readonly publicPort?: number
  readonly announcer?: Announcer
  /** URL of a webhook. */
  readonly webhookUrl?: string
  /** As the provider gives them to who signs in without it. Default: none. */
  readonly workspaceNames?: Readonly<Record<string, string>>
  /** Default: none. */
  readonly limits?: Partial<Config['limits']>
}

/** A real console that listens, and a real provider that signs every visitor in. Both run in this process. */
export async function startConsoleSite(options: ConsoleSiteOptions = {}) {
  const { clock = REAL, gatewayUrl = GATEWAY_URL, redisUrl, databaseUrl, announcer, webhookUrl } = options
  const port = await freePort()
  const origin = `http://127.0.0.1:${options.publicPort ?? port}`
  const provider = await IdentityProvider.started({ redirectUri: `${origin}/sign-in/callback` })
  const config = consoleConfig({
    ...(redisUrl === undefined ? {} : { redisUrl }),
    ...(databaseUrl === undefined ? {} : { databaseUrl }),
    ...(options.limits === undefined ? {} : { limits: options.limits }),
    ...(webhookUrl === undefined ? {} : { webhook: { url: webhookUrl, secret: WEBHOOK_SECRET } }),
    leaks: { enabled: true, action: 'report' },
    workspaceWebhooks: { enabled: true, allowHttp: true, allowedCidrs: ['127.0.0.0/8'] },
    signIn: {
      publicUrl: origin,
      ...(gatewayUrl === null ? {} : { gatewayUrl }),
      oidc: {
        issuer: provider.issuer,
        clientId: CLIENT_ID,
        clientSecret: CLIENT_SECRET,
        administratorClaim: 'roles',
        administratorValue: 'postern-admin',
      },
    },
  })
  const { routes, scopes } = configOf()
  const person = {
    subject: 'ada',
    name: 'Ada Lovelace',
    workspaces: ['ws_1', 'ws_2'],
    administrator: false,
    role: 'manager',
    ...(options.workspaceNames === undefined ? {} : { workspaceNames: options.workspaceNames }),
  } as const
  const link = createOneTimeLink(person, clock, randomBytes)
  const root = { ...person, subject: 'root', name: 'Root', workspaces: [], administrator: true }
  const administratorLink = createOneTimeLink(root, clock, randomBytes)
  const console = await createConsole({
    ...UNWATCHED_PARTS,
    version: '1.0.0',
    config: { ...config, routes, scopes },
    metrics: createMetrics(),
    logger: silentLogger,
    clock,
    randomBytes,
    oneTimeLink: { ...link, take: token => link.take(token) ?? administratorLink.take(token) },
    ...(announcer === undefined ? {} : { announcer }),
  })
  await console.app.listen({ host: '127.0.0.1', port })
  const internal = await console.internal.listen({ host: '127.0.0.1', port: 0 })
  console.start()

  async function send(token: string, url: string, body?: object): Promise<Response> {
    const sent = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const response = await fetch(url, { headers, ...sent })
    if (!response.ok)
      throw new Error(`The console answered ${response.status} to ${url}: ${await response.text()}`)
    return response
  }
  return {
    origin,
    port,
    /** Where gateways look up keys. */
    internal,
    provider,
    /** Signs in without the provider, which does not know the test's clock. */
    signInUrl: origin + link.path,
    administratorUrl: origin + administratorLink.path,
    /** Issues a key through the admin API. */
    async issue(key: { name: string; scopes?: string[]; expiresInDays?: number }, workspaceId = 'ws_1') {
      const asked = { scopes: ['files:read', 'workspace:read'], ...key }
      const response = await send(ADMIN_TOKEN, `${origin}/admin/v1/workspaces/${workspaceId}/keys`, asked)
      // The console's response is trusted here; test/console tests it.
      const answer = (await response.json()) as { key: { id: string; hint: string }; secret: string }
      return { ...answer.key, secret: answer.secret }
    },
    async rotate(id: string, body: { overlapSeconds?: number } = {}): Promise<string> {
      const answer = await send(ADMIN_TOKEN, `${origin}/admin/v1/keys/${id}/rotate`, body)
      return ((await answer.json()) as { key: { id: string } }).key.id
    },
    /** Edits the version that is stored, as a program does. */
    async edit(id: string, changes: { description?: string; allowedCidrs?: string[] }) {
      const url = `${origin}/admin/v1/keys/${id}`
      const etag = (await send(ADMIN_TOKEN, url)).headers.get('etag') ?? ''
      const headers = {
        authorization: `Bearer ${ADMIN_TOKEN}`,
        'content-type': 'application/json',
        'if-match': etag,
      }
      const response = await fetch(url, { method: 'PATCH', headers, body: JSON.stringify(changes) })
      if (!response.ok) throw new Error(`An edit was answered ${response.status}: ${await response.text()}`)
    },
    /** Reports a key as leaked, as a client does that has found it. */
    reportLeak: (token: string, url: string) => send('', `${origin}/leaks/report`, { token, url }),
    suspend: (id: string) => send(ADMIN_TOKEN, `${origin}/admin/v1/keys/${id}/suspend`, {}),
    revoke: (id: string) => send(ADMIN_TOKEN, `${origin}/admin/v1/keys/${id}/revoke`, {}),
    /** Reports usage as a gateway does. @param used key ids with ms since the epoch */
    noteUse: (used: Record<string, number>) =>
      send(KEY_SERVICE_TOKEN, `${internal}/internal/v1/usage`, {
        gateway: 'gateway-1.uses',
        sequence: 1,
        used,
      }),
    /** Reports counts and refusals as a gateway does, once. */
    reportUsage: (more: {
      counts: readonly object[]
      refusals: readonly object[]
      omittedRefusals?: readonly object[]
      limits?: readonly object[]
      gateway?: string
    }) =>
      send(KEY_SERVICE_TOKEN, `${internal}/internal/v1/usage`, {
        gateway: 'gateway-1.a1b2',
        sequence: 1,
        used: {},
        ...more,
      }),
    /** A gateway that confirms changes. */
    confirm: (name: string, confirmed: { digest: string; version: number }[] = []) =>
      send(KEY_SERVICE_TOKEN, `${internal}/internal/v1/confirmations`, {
        gateway: { id: name, name },
        connected: true,
        leaving: false,
        confirmed,
      }),
    async stop() {
      await console.stop()
      await provider.stop()
    },
  }
}

export type ConsoleSite = Awaited<ReturnType<typeof startConsoleSite>>

const REAL: Clock = { wallMs: () => Date.now(), monotonicMs: () => performance.now() }
