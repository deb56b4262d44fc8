import type { FastifyInstance } from 'fastify'
import { onReloadOf } from '../config/reloadable.ts'
import type { Announcer } from './announcing/announcer.ts'
import type { Regions } from './announcing/regions.ts'
import { createInternalServer } from './key-service/internal-server.ts'
import { keyServiceCalls } from './key-service/key-service-calls.ts'
import { LiveGateways } from './key-service/live-gateways.ts'
import { type OpenRegistry, openRegistry } from './keys/open-registry.ts'
import { createIds } from './keys/operations/ids.ts'
import { createLeaks, type Leaks } from './leaks/create-leaks.ts'
import { type AccessAudit, createAccessAudit } from './platform/access/access-audit.ts'
import { type ConsoleContext, type ConsoleParts, createConsoleContext } from './platform/console-context.ts'
import { AcceptedTokens } from './platform/http/accepted-tokens.ts'
import { startHousekeeping } from './platform/jobs/housekeeping.ts'
import { createPublicServer } from './public-server.ts'
import { createSignIn, type SignIn } from './sign-in/create-sign-in.ts'
import { createAdminTokens } from './tokens/admin-tokens.ts'
import { createUsageService, type UsageService } from './usage/create-usage-service.ts'
import { createWebhook, type Webhook } from './webhooks/create-webhook.ts'
import { createOperatorDeliveries, type OperatorDeliveries } from './webhooks/webhook-deliveries.ts'
import {
  openWorkspaceWebhooks,
  type RunningWorkspaceWebhooks,
} from './webhooks/workspaces/create-workspace-webhooks.ts'

export interface ConsoleHealth {
  readonly database: 'ok' | 'failed'
  /** Without Redis, changes wait in the database and are announced later. */
  readonly announcer: AnnouncerState | 'degraded'
  /** By name, if the settings name any. */
  readonly regions?: Readonly<Record<string, AnnouncerState>>
}

type AnnouncerState = ReturnType<Announcer['state']>

export interface Console {
  /** For people and programs. Not listening; `listen` and `inject` are the caller's. */
  readonly app: FastifyInstance
  /** For gateways, on a listener of its own. Not listening either. */
  readonly internal: FastifyInstance
  health(): Promise<ConsoleHealth>
  /** Starts announcing, webhooks and housekeeping. */
  start(): void
  /** Ends requests in flight, then announcing, then the database. */
  stop(): Promise<void>
}

/** The control plane: the database is open and migrated, nothing listens, nothing is announced yet. */
export async function createConsole(parts: ConsoleParts): Promise<Console> {
  const context = createConsoleContext(parts)
  const { config, onReload, clock, randomBytes } = context
  const open = await openRegistry(context)
  const deliveries = createOperatorDeliveries(open.database, clock)
  const webhook = createOperatorWebhook(context, deliveries)
  const workspaceWebhooks = openWorkspaceWebhooks(context, open)
  const signIn = createSignIn({
    ...context,
    config: config.console,
    proxies: config.outgoing,
    onReload: onReloadOf(onReload, next => next.console),
    database: open.database,
    newAuditId: open.registry.newAuditId,
    oneTimeLink: context.oneTimeLink ?? null,
  })
  const tokens = createAdminTokens({
    ...context,
    database: open.database,
    newTokenId: createIds('tok', randomBytes),
    newAuditId: open.registry.newAuditId,
    keyPrefix: config.keys.prefix,
    signingKeys: () => context.secrets.value.signingKeys,
  })
  const accessAudit = createAccessAudit({ ...context, ...open, newAuditId: open.registry.newAuditId })
  const usage = createUsageService(context, open)
  const leaks = createLeaks(context, open.registry)
  const app = createPublicServer(context, {
    ...{ open, deliveries, signIn, tokens, accessAudit, usage, leaks },
    workspaceWebhooks: workspaceWebhooks?.webhooks ?? null,
  })
  const internal = createKeyService(context, open, usage)

  const purges = [
    () => open.repository.purge(),
    () => deliveries.purge(),
    async () => workspaceWebhooks?.purge(),
    () => signIn.sessions.purge(),
    () => usage.purge(),
  ]
  let stopTasks = () => {}
  let stopped: Promise<void> | null = null
  return {
    app,
    internal,
    health: () => checkHealth(open),
    start() {
      stopTasks = startTasks(context, open, purges)
      webhook?.start()
      workspaceWebhooks?.start()
    },
    stop() {
      stopped ??= stopInOrder({
        ...{ app, internal, open, accessAudit, usage, leaks, webhook, workspaceWebhooks, signIn, stopTasks },
      })
      return stopped
    },
  }
}

function createOperatorWebhook(context: ConsoleContext, deliveries: OperatorDeliveries): Webhook | null {
  const { config, onReload, randomBytes } = context
  return createWebhook(config.console.webhook, {
    ...context,
    deliveries,
    newEventId: createIds('msg', randomBytes),
    onReload: onReloadOf(onReload, next => next.console.webhook),
    proxies: config.outgoing,
  })
}

interface RunningParts {
  readonly app: FastifyInstance
  readonly internal: FastifyInstance
  readonly open: OpenRegistry
  readonly accessAudit: AccessAudit
  readonly usage: UsageService
  readonly leaks: Leaks | null
  readonly webhook: ReturnType<typeof createWebhook>
  readonly workspaceWebhooks: RunningWorkspaceWebhooks | null
  readonly signIn: SignIn
  readonly stopTasks: () => void
}

async function stopInOrder(parts: RunningParts): Promise<void> {
  const { app, internal, open, accessAudit, usage, leaks, webhook, workspaceWebhooks, signIn, stopTasks } =
    parts
  await app.close()
  await accessAudit.stop()
  // After the public listener: a revocation that waits for confirmations is completed by what gateways send here.
  await internal.close()
  stopTasks()
  await usage.stop()
  await leaks?.stop()
  await webhook?.stop()
  await workspaceWebhooks?.stop()
  await open.regions.stop()
  await signIn.stop()
  await open.repository.close()
}

function createKeyService(
  context: ConsoleContext,
  { repository, regions }: OpenRegistry,
  usage: UsageService,
): FastifyInstance {
  const { config, onReload, logger, metrics, secrets } = context
  return createInternalServer({
    ...context,
    keyPrefix: config.keys.prefix,
    settings: config.console.internal,
    onReload: onReloadOf(onReload, next => next.console.internal),
    tokens: new AcceptedTokens({
      ...context,
      setting: 'keyService.token',
      tokens: () => secrets.value.keyServiceTokens,
    }),
    calls: keyServiceCalls({
      repository,
      clock: context.clock,
      liveGateways: new LiveGateways(repository, context.clock),
      usageCall: usage.call,
      metrics,
      get recordKeys() {
        return secrets.value.recordKeys
      },
      get fingerprints() {
        return secrets.value.fingerprints
      },
      regions: regions.list.map(({ name }) => name),
      refill: (keys, region) => regions.refill(keys, region),
      logger,
    }),
  })
}

/** @returns stops them */
function startTasks(
  context: ConsoleContext,
  open: OpenRegistry,
  purges: readonly (() => Promise<void>)[],
): () => void {
  open.regions.start()
  const regions = open.regions.list.map(({ name }) => name)
  return startHousekeeping({ ...context, repository: open.repository, regions, purges })
}

async function checkHealth({ databaseHealth, regions }: OpenRegistry): Promise<ConsoleHealth> {
  return { database: await databaseHealth.state(), ...announcerHealth(regions) }
}

/** A region that is down does not make a console unready: the others get every change. */
function announcerHealth({ list, areNamed }: Regions): Omit<ConsoleHealth, 'database'> {
  const states = list.map(({ name, announcer }) => [name, announcer.state()] as const)
  const [first] = states
  const isSame = first !== undefined && states.every(([, state]) => state === first[1])
  const announcer = isSame ? first[1] : 'degraded'
  return areNamed ? { announcer, regions: Object.fromEntries(states) } : { announcer }
}
