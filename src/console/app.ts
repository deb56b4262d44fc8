import type { FastifyInstance } from 'fastify'
import { narrowReload } from '../config/reloadable.ts'
import type { Announcer } from './announcing/announcer.ts'
import {
  createAnnouncing,
  createGatewayRows,
  createRegionRows,
  createRegions,
  type Regions,
} from './announcing/index.ts'
import { createApiReference } from './api-reference/index.ts'
import { createAudit } from './audit/index.ts'
import { createInternalListener } from './key-service/index.ts'
import { createKeys, createRegistry, openKeyRows } from './keys/index.ts'
import { createLeaks } from './leaks/index.ts'
import { createAccessAudit } from './platform/audit/access-audit.ts'
import {
  type Capability,
  type ConsoleContext,
  type ContextParts,
  createConsoleContext,
} from './platform/capability.ts'
import type { DatabaseState } from './platform/database/database-health.ts'
import { createIds } from './platform/database/ids.ts'
import type { Migrations } from './platform/database/migrations.ts'
import { keepUp } from './platform/jobs/timers.ts'
import { openConsoleDatabase } from './platform/open-console-database.ts'
import { createPublicServer } from './public-server.ts'
import { MIGRATIONS } from './schema.ts'
import { createSignIn, type OneTimeLink } from './sign-in/index.ts'
import { createTokens } from './tokens/index.ts'
import { createUsageService } from './usage/index.ts'
import {
  configuredReceivers,
  createAddLimitEvents,
  createChangeEvents,
  createWebhooks,
} from './webhooks/index.ts'
import { createWorkspaces } from './workspaces/index.ts'

const PURGE_PERIOD_MS = 60_000

export interface ConsoleParts extends ContextParts {
  /** Default: the Redis of the settings, or none. */
  readonly announcer?: Announcer
  /** The demo's way to sign in. No setting creates one. */
  readonly oneTimeLink?: OneTimeLink
}

export interface Console {
  /** For people and programs. Not listening; `listen` and `inject` are the caller's. */
  readonly app: FastifyInstance
  /** For gateways, on a listener of its own. Not listening either. */
  readonly internal: FastifyInstance
  health(): Promise<ConsoleHealth>
  /** Starts every capability: announcing, webhooks, what each keeps up. */
  start(): void
  /** Ends requests in flight, then announcing, then the database. */
  stop(): Promise<void>
}

/** The control plane: the database is open and migrated, nothing listens, nothing is announced yet. */
export async function createConsole(parts: ConsoleParts, migrations = MIGRATIONS): Promise<Console> {
  const context = createConsoleContext(parts)
  const shared = await openShared(context, migrations, parts.announcer)
  const { database, registry } = shared
  const { signIn, programs, accessAudit } = createAccess(context, shared, parts.oneTimeLink)
  const usage = createUsageService(context, shared, createAddLimitEvents(context))

  const capabilities: readonly Capability[] = [
    { stop: () => database.close() },
    signIn.capability,
    createAnnouncing(context, shared),
    createKeys(context, registry, usage),
    createWorkspaces({ ...registry, database }),
    createAudit(context, shared),
    programs.capability,
    createWebhooks(context, shared),
    createApiReference(context),
    createLeaks(context, registry),
    usage.capability,
  ]

  const app = createPublicServer(context, { capabilities, signIn, tokens: programs.tokens, accessAudit })
  const internal = createInternalListener(context, shared, usage)
  let stopPurges = () => {}
  let stopped: Promise<void> | null = null
  const stop = async () => {
    await app.close()
    await accessAudit.stop()
    // After the public listener: a revocation that waits for confirmations is completed by what gateways send here.
    await internal.close()
    stopPurges()
    for (const { stop } of capabilities.toReversed()) await stop?.()
  }
  return {
    app,
    internal,
    health: () => checkHealth(shared),
    start() {
      for (const { start } of capabilities) start?.()
      stopPurges = startPurges(context, capabilities)
    },
    stop: () => {
      stopped ??= stop()
      return stopped
    },
  }
}

/** What several capabilities use. */
type Shared = Awaited<ReturnType<typeof openShared>>

async function openShared(context: ConsoleContext, migrations: Migrations, announcer?: Announcer) {
  const { config, clock, consoleId } = context
  const database = await openConsoleDatabase(context, migrations)
  const now = () => clock.wallMs()
  const keyRows = openKeyRows({ database, clock })
  const regionRows = createRegionRows({ database, consoleId, now })
  const gateways = createGatewayRows(database, now)
  const regions = createRegions(context, { regionRows, keys: keyRows.stored, announcer })
  await regions.register()
  const receivers = configuredReceivers(config)
  const registry = createRegistry(context, {
    ...keyRows,
    gateways,
    inEachRegion: regions.inEach,
    createEvents: change => createChangeEvents(change, receivers),
  })
  return { ...keyRows, database, regionRows, gateways, regions, registry }
}

/** Who may call: people by sign-in, programs by token, and the record of what either was refused. */
function createAccess(
  context: ConsoleContext,
  { database, registry: { newAuditId } }: Shared,
  oneTimeLink: OneTimeLink | null = null,
) {
  const { config } = context
  const signIn = createSignIn({
    ...context,
    database,
    newAuditId,
    config: config.console,
    proxies: config.outgoing,
    onReload: narrowReload(context.onReload, next => next.console),
    oneTimeLink,
  })
  const programs = createTokens({
    ...context,
    database,
    newAuditId,
    newTokenId: createIds('tok', context.randomBytes),
    keyPrefix: config.keys.prefix,
    signingKeys: () => context.secrets.value.signingKeys,
  })
  return { signIn, programs, accessAudit: createAccessAudit({ ...context, database, newAuditId }) }
}

/** @returns stops them */
function startPurges(context: ConsoleContext, capabilities: readonly Capability[]): () => void {
  const purges = capabilities.flatMap(({ purge }) => purge ?? [])
  const stops = purges.map(work => keepUp(context, { everyMs: PURGE_PERIOD_MS, work }))
  return () => {
    for (const stop of stops) stop()
  }
}

interface ConsoleHealth {
  readonly database: DatabaseState
  /** Without Redis, changes wait in the database and are announced later. */
  readonly announcer: AnnouncerState | 'degraded'
  /** By name, if the settings name any. */
  readonly regions?: Readonly<Record<string, AnnouncerState>>
}

type AnnouncerState = ReturnType<Announcer['state']>

async function checkHealth({ database, regions }: Shared): Promise<ConsoleHealth> {
  return { database: await database.health.state(), ...announcerHealth(regions) }
}

/** A region that is down does not make a console unready: the others get every change. */
function announcerHealth({ list, areNamed }: Regions): Omit<ConsoleHealth, 'database'> {
  const states = list.map(({ name, announcer }) => [name, announcer.state()] as const)
  const [first] = states
  const isSame = first !== undefined && states.every(([, state]) => state === first[1])
  const announcer = isSame ? first[1] : 'degraded'
  return areNamed ? { announcer, regions: Object.fromEntries(states) } : { announcer }
}
