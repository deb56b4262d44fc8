import formbody from '@fastify/formbody'
import type { FastifyInstance } from 'fastify'
import { neverReloads, type OnReload, onReloadOf, reloadable } from '../config/reloadable.ts'
import type { Config } from '../config/schema.ts'
import type { Clock } from '../domain/clock.ts'
import { describeApi } from '../domain/describe-api.ts'
import type { ControlLogger } from '../observability/control-logger.ts'
import type { Metrics } from '../observability/metrics.ts'
import { adminCalls } from './admin-calls.ts'
import { createConfiguredAnnouncer } from './configured-announcer.ts'
import type { PageSources } from './console/page-sources.ts'
import { registerPages } from './console/pages.ts'
import { importSecrets } from './console-secrets.ts'
import { requireBearerOrPerson } from './http/bearer.ts'
import { createConsoleServer } from './http/console-server.ts'
import { mountCalls } from './http/mount-calls.ts'
import { createInternalServer } from './internal-server.ts'
import { keyServiceCalls } from './key-service-routes.ts'
import type { Announcer } from './registry/announcing/announcer.ts'
import { startBeats } from './registry/announcing/heartbeats.ts'
import { createMessageEncoder } from './registry/announcing/message-encoder.ts'
import { Outbox } from './registry/announcing/outbox.ts'
import { createRefill } from './registry/announcing/refill.ts'
import { openDatabase } from './registry/database/database.ts'
import { startHousekeeping } from './registry/database/housekeeping.ts'
import type { KeyRepository } from './registry/database/key-repository.ts'
import { createKeyRepository } from './registry/database/kysely-key-repository.ts'
import { untilReachable } from './registry/database/until-reachable.ts'
import { createIds, type RandomBytes } from './registry/operations/ids.ts'
import { createOperationCount } from './registry/operations/operation-count.ts'
import type { Registry } from './registry/registry.ts'
import { createSignIn } from './sign-in/create-sign-in.ts'
import type { OneTimeLink } from './sign-in/one-time-link.ts'
import { systemTimers, type Timers } from './timers.ts'
import { createWebhook, isWebhookOn } from './webhooks/create-webhook.ts'
import { createNotices, type Notices } from './webhooks/deliveries.ts'
import { noticesOfChange } from './webhooks/webhook-event.ts'

export interface ConsoleParts {
  readonly config: Config
  readonly metrics: Metrics
  readonly logger: ControlLogger
  readonly clock: Clock
  readonly randomBytes: RandomBytes
  /** The program's own, for the API reference. */
  readonly version?: string
  /** Where gateways learn of keys; Redis by default, or nobody where none is configured. */
  readonly announcer?: Announcer
  readonly timers?: Timers
  /** The demo's own way to sign in. No setting makes one. */
  readonly oneTimeLink?: OneTimeLink
  /** Told when the console cannot start yet for want of something. */
  readonly onWaiting?: (part: 'database') => void
  /** How settings are heard of that change while it runs. */
  readonly onReload?: OnReload<Config>
}

export interface ConsoleHealth {
  /** Redis being down is no reason to take the console away: changes are kept, and announced later. */
  readonly ready: boolean
  readonly checks: { readonly database: 'ok' | 'failed'; readonly announcer: ReturnType<Announcer['state']> }
}

export interface Console {
  /** For people and programs. Not listening; `listen` and `inject` are the caller's. */
  readonly app: FastifyInstance
  /** For gateways, on a listener of its own. Not listening either. */
  readonly internal: FastifyInstance
  health(): Promise<ConsoleHealth>
  /** Begins to announce. */
  start(): void
  /** Ends requests in flight, then announcing, then the database. */
  stop(): Promise<void>
}

/** The control plane, wired: the database is open and up to date, nothing listens, nothing is announced yet. */
export async function createConsole(parts: ConsoleParts): Promise<Console> {
  const {
    config,
    metrics,
    logger,
    clock,
    randomBytes,
    timers = systemTimers,
    onReload = neverReloads,
  } = parts
  const secrets = reloadable(config, onReload, importSecrets)
  const random = () => (randomBytes(1)[0] ?? 0) / 256
  const announcer = parts.announcer ?? createConfiguredAnnouncer(parts, secrets)
  const me = Buffer.from(randomBytes(4)).toString('hex')
  const onUrlReload = onReloadOf(onReload, (next: Config) => next.database.url)
  const url = reloadable(config.database.url, onUrlReload, current => current)
  const database = await untilReachable(() => openDatabase(url.value, onUrlReload), {
    clock,
    timers,
    logger,
    random,
    onWaiting: () => parts.onWaiting?.('database'),
  })
  const repository = createKeyRepository(database, clock, me)
  const notices = createNotices(database, clock)
  const newNoticeId = createIds('msg', randomBytes)
  const webhook = createWebhook(config.console.webhook, {
    notices,
    newNoticeId,
    onReload: onReloadOf(onReload, next => next.console.webhook),
    clock,
    timers,
    metrics,
    logger,
    random,
  })
  const messages = createMessageEncoder({ sender: me, clock, messageKey: () => secrets.value.messageKey })
  const outbox = new Outbox({ repository, announcer, messages, clock, timers, logger, random })
  const registry: Registry = {
    repository,
    outbox,
    clock,
    timers,
    randomBytes,
    newKeyId: createIds('key', randomBytes),
    newAuditId: createIds('audit', randomBytes),
    keyPrefix: config.keys.prefix,
    get signingKey() {
      return secrets.value.signingKey
    },
    knownScopes: Object.keys(config.scopes),
    noticesOf: isWebhookOn(config.console.webhook) ? noticesOfChange : () => [],
  }
  const { trustedProxies } = config.console
  const server = { logger, metrics, randomBytes, keyPrefix: config.keys.prefix }
  const app = createConsoleServer({ ...server, listener: 'console', trustedProxies, tls: null })
  const calls = adminCalls(registry, metrics, { repository, announcer, notices, clock, logger })
  const { oneTimeLink = null } = parts
  const signIn = createSignIn({
    config: config.console,
    onReload: onReloadOf(onReload, next => next.console),
    database,
    oneTimeLink,
    clock,
    randomBytes,
    metrics,
    logger,
  })
  void app.register(async people => {
    await signIn.recognise(people)
    const admit = requireBearerOrPerson(() => secrets.value.adminToken)
    mountCalls(people, { prefix: '/admin/v1', admit, unknownPath: 'not_found' }, calls)
    void people.register(async pages => {
      await pages.register(formbody)
      signIn.routes(pages)
      registerPages(pages, pageSourcesOf(parts, registry, notices), logger)
    })
  })
  const refill = createRefill(announcer, logger)
  const internal = createInternalServer({
    ...server,
    settings: config.console.internal,
    onReload: onReloadOf(onReload, next => next.console.internal),
    clock,
    token: () => secrets.value.keyServiceToken,
    calls: keyServiceCalls({
      repository,
      clock,
      get recordKeys() {
        return secrets.value.recordKeys
      },
      refill,
      logger,
    }),
  })

  let stopBeats = () => {}
  let stopHousekeeping = () => {}
  let stopped: Promise<void> | null = null
  return {
    app,
    internal,
    health: () => healthOf(repository, announcer),
    start() {
      announcer.start()
      stopBeats = startBeats({ repository, announcer, messages, outbox, clock, timers, logger })
      const purges = [() => repository.purge(), () => notices.purge(), () => signIn.sessions.purge()]
      stopHousekeeping = startHousekeeping({ repository, purges, metrics, clock, timers, logger })
      webhook?.start()
      outbox.kick()
    },
    stop() {
      stopped ??= (async () => {
        await app.close()
        // Last: a revocation that waits for confirmations is answered by what gateways say here.
        await internal.close()
        stopBeats()
        stopHousekeeping()
        await webhook?.stop()
        await outbox.stop()
        await announcer.stop()
        await signIn.stop()
        await repository.close()
      })()
      return stopped
    },
  }
}

function pageSourcesOf(
  { config, metrics, version = '0.0.0' }: ConsoleParts,
  registry: Registry,
  notices: Notices,
): PageSources {
  const { scopes, routes } = config
  return {
    registry,
    notices: isWebhookOn(config.console.webhook) ? notices : null,
    count: createOperationCount(metrics),
    scopes,
    routes,
    document: describeApi(config, version),
    gatewayUrl: config.console.gatewayUrl?.replace(/\/$/, '') ?? null,
  }
}

async function healthOf(repository: KeyRepository, announcer: Announcer): Promise<ConsoleHealth> {
  const database = await repository.pendingSpan().then(
    () => 'ok' as const,
    () => 'failed' as const,
  )
  return { ready: database === 'ok', checks: { database, announcer: announcer.state() } }
}
