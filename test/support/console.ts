import { randomBytes } from 'node:crypto'
import type { InjectOptions } from 'fastify'
import pino from 'pino'
import { onTestFinished } from 'vitest'
import type { Config } from '../../src/config/schema/schema.ts'
import { type Console, type ConsoleParts, createConsole } from '../../src/console/app.ts'
import type { Migrations } from '../../src/console/platform/database/migrations.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { requireDescribed } from './admin-contract.ts'
import type { AdminResponse } from './admin-response.ts'
import { defaultConfig } from './default-config.ts'
import { SIGNING_SECRET } from './signing-secret.ts'
import { UNWATCHED_PARTS } from './unwatched-parts.ts'

export { SIGNING_SECRET }

export const ADMIN_TOKEN = 'admin-token-of-the-tests'
export const KEY_SERVICE_TOKEN = 'key-service-token-of-the-tests'

export interface ConsoleOptions {
  readonly databaseUrl?: string
  readonly redisUrl?: string
  /** Replaces `url` if the topology needs more than an address. */
  readonly redis?: Partial<Config['redis']>
  readonly regions?: Config['regions']
  /** Default: one, which the gateway answers. */
  readonly routes?: Config['routes']
  readonly adminToken?: string | null
  readonly internal?: Partial<Config['console']['internal']>
  readonly signIn?: Partial<Omit<Config['console'], 'oidc' | 'internal'>> & {
    readonly oidc?: Partial<Config['console']['oidc']>
  }
  readonly webhook?: Partial<Config['console']['webhook']>
  readonly workspaceWebhooks?: Partial<Config['webhooks']['workspaces']>
  /** Names of plans without limits. */
  readonly plans?: readonly string[]
  readonly limits?: Partial<Config['limits']>
  readonly keepsUsage?: boolean
  readonly keepsRefusals?: boolean
  readonly leaks?: Partial<Omit<Config['leaks'], 'github'>> & {
    readonly github?: Partial<Config['leaks']['github']>
  }
  readonly parts?: Partial<ConsoleParts>
  /** Default: those of this release. */
  readonly migrations?: Migrations
}

/** A real console over a real database, with its log. It stops when the running test ends. */
export async function startConsole(options: ConsoleOptions = {}) {
  const log: Record<string, unknown>[] = []
  const logger = pino({ level: 'debug' }, { write: line => void log.push(JSON.parse(line)) })
  const metrics = createMetrics()
  const clock = { wallMs: () => Date.now(), monotonicMs: () => performance.now() }
  const config = consoleConfig(options)
  const console = await createConsole(
    { ...UNWATCHED_PARTS, config, metrics, logger, clock, randomBytes, ...options.parts },
    options.migrations,
  )
  console.start()
  onTestFinished(() => console.stop())
  return { console, log, metrics, send: requester(console), ...console }
}

export type RunningConsole = Awaited<ReturnType<typeof startConsole>>

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: AdminResponse
  readonly text: string
}

/**
 * Sends requests with the admin token, or below `/internal` with the gateways' token, unless a test sets headers. Each response
 * of the admin API must be one that its OpenAPI document describes.
 */
function requester({ app, internal }: Console) {
  return async (
    method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'PUT' | 'PATCH',
    url: string,
    body?: unknown,
    more: InjectOptions = {},
  ): Promise<Answer> => {
    const isInternal = url.startsWith('/internal')
    const authorization = `Bearer ${isInternal ? KEY_SERVICE_TOKEN : ADMIN_TOKEN}`
    const payload = body === undefined ? {} : { payload: JSON.stringify(body) }
    const type = body === undefined ? {} : { 'content-type': 'application/json' }
    const headers = { authorization, ...type, ...more.headers }
    const response = await (isInternal ? internal : app).inject({ method, url, ...payload, ...more, headers })
    const { payload: text, statusCode: status } = response
    if (url.startsWith('/admin/')) {
      // A test may send another method than its type has.
      const sent = String(more.method ?? method)
      requireDescribed({ method: sent, url, status, headers: response.headers, text })
    }
    return { status, headers: response.headers, body: parsed(text) as AdminResponse, text }
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

export function consoleConfig({
  databaseUrl,
  redisUrl,
  redis,
  regions = [],
  routes = [{ name: 'auth', path: '/api/v1/auth', answeredBy: 'gateway' }],
  adminToken = ADMIN_TOKEN,
  internal,
  signIn,
  webhook = {},
  workspaceWebhooks = {},
  keepsUsage = true,
  plans = [],
  limits,
  keepsRefusals = true,
  leaks = {},
}: ConsoleOptions): Config {
  const { gateway, upstream, usage, refusals, webhooks, leaks: leakDefaults, outgoing } = defaultConfig()
  return {
    gateway,
    outgoing,
    console: {
      host: '127.0.0.1',
      port: 0,
      maxConnections: 1000,
      maxConnectionsPerAddress: 256,
      internal: { host: '127.0.0.1', port: 0, maxConnections: 4096, tls: {}, ...internal },
      webhook: { timeoutMs: 10_000, ...webhook },
      ...(adminToken === null ? {} : { adminToken: [adminToken] }),
      trustedProxies: [],
      signInsPerMinute: 1000,
      failedTokensPerMinute: 1000,
      triedRequestsPerMinute: 1000,
      session: { idleSeconds: 3600, absoluteSeconds: 43_200, maxPerPerson: 20 },
      ...signIn,
      oidc: {
        scopes: ['profile'],
        workspacesClaim: 'workspaces',
        administratorValue: 'true',
        viewerValue: 'viewer',
        timeoutMs: 10_000,
        ...signIn?.oidc,
      },
    },
    ops: { host: '127.0.0.1', port: 0 },
    upstream,
    redis: {
      sentinel: { urls: [] },
      cluster: { urls: [] },
      heartbeats: true,
      circuit: { failures: 5, openMs: 500 },
      commandTimeoutMs: 500,
      connectTimeoutMs: 500,
      ...(redisUrl === undefined ? {} : { url: redisUrl }),
      ...redis,
    },
    regions,
    keyService: {
      token: [KEY_SERVICE_TOKEN],
      circuit: { failures: 5, openMs: 500 },
      timeoutMs: 1000,
      tls: {},
    },
    limits: {
      replicas: 1,
      policies: [],
      plans: Object.fromEntries(plans.map(plan => [plan, { policies: [] }])),
      ...limits,
    },
    keys: {
      format: 'signed',
      prefix: 'wsk_',
      signingSecrets: [SIGNING_SECRET.toString('base64')],
      memory: { ttlSeconds: 30, absentTtlSeconds: 1, maxEntries: 1000 },
      staleSeconds: 300,
      unsignedLookups: { perSecond: 1_000, perAddress: 1_000 },
    },
    database: { url: databaseUrl ?? 'sqlite::memory:' },
    drain: { delayMs: 0, timeoutMs: 1000 },
    reload: { everySeconds: 0 },
    metrics: { workspaces: [], exemplars: false },
    usage: { ...usage, enabled: keepsUsage },
    refusals: { ...refusals, enabled: keepsRefusals },
    leaks: { ...leakDefaults, ...leaks, github: { ...leakDefaults.github, ...leaks.github } },
    webhooks: { workspaces: { ...webhooks.workspaces, ...workspaceWebhooks } },
    // The schema's union of levels has no static type.
    tracing: { sampleRatio: 1, trustParent: 'trusted-proxies' },
    log: { level: 'debug', format: 'json' },
    scopes: { 'workspace:read': 'See the workspace', 'files:read': 'List its files' },
    routes,
  }
}
