import type { FastifyInstance } from 'fastify'
import { narrowReload } from '../config/reloadable.ts'
import type { Announcer } from './announcing/announcer.ts'
import { createAnnouncing } from './announcing/index.ts'
import type { Regions } from './announcing/regions.ts'
import { createApiReference } from './api-reference/index.ts'
import { createAudit } from './audit/index.ts'
import { createInternalListener } from './key-service/index.ts'
import { createKeys, type OpenRegistry, openRegistry } from './keys/index.ts'
import { createLeaks } from './leaks/index.ts'
import type { OneTimeLink } from './platform/access/person.ts'
import { createAccessAudit } from './platform/audit/access-audit.ts'
import type { Capability } from './platform/capability.ts'
import { type ConsoleContext, type ContextParts, createConsoleContext } from './platform/console-context.ts'
import { createIds } from './platform/database/ids.ts'
import { keepUp } from './platform/jobs/timers.ts'
import { createPublicServer } from './public-server.ts'
import { MIGRATIONS } from './schema.ts'
import { createSignIn } from './sign-in/index.ts'
import { createTokens } from './tokens/index.ts'
import { createUsageService } from './usage/index.ts'
import { createWebhooks, eventsBy, limitEventsBy } from './webhooks/index.ts'
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
  const { config, clock, version = '0.0.0' } = context
  const { announcer, oneTimeLink } = parts
  const open = await openRegistry(context, { migrations, announcer, createEvents: eventsBy(config) })
  const { database, registry } = open
  const { signIn, programs, accessAudit } = createAccess(context, open, oneTimeLink)
  const usage = createUsageService(context, open, limitEventsBy(context))
  const leaks = createLeaks(context, registry)

  const capabilities: readonly Capability[] = [
    { stop: () => database.close() },
    signIn.capability,
    createAnnouncing(context, open),
    createKeys(context, registry, usage),
    createWorkspaces(registry),
    createAudit(context, open),
    programs.capability,
    createWebhooks(context, open),
    createApiReference(config, clock, version),
    ...(leaks === null ? [] : [leaks]),
    usage.capability,
  ]

  const app = createPublicServer(context, {
    capabilities,
    signIn,
    tokens: programs.tokens,
    accessAudit,
    leaks,
  })
  const internal = createInternalListener(context, open, usage)
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
    health: () => checkHealth(open),
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

/** Who may call: people by sign-in, programs by token, and the record of what either was refused. */
function createAccess(
  context: ConsoleContext,
  { database, registry: { newAuditId } }: OpenRegistry,
  oneTimeLink: OneTimeLink | null = null,
) {
  const { config } = context
  const signIn = createSignIn({
    ...{ ...context, database, newAuditId },
    config: config.console,
    proxies: config.outgoing,
    onReload: narrowReload(context.onReload, next => next.console),
    oneTimeLink,
  })
  const programs = createTokens({
    ...{ ...context, database, newAuditId },
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

export interface ConsoleHealth {
  readonly database: 'ok' | 'failed'
  /** Without Redis, changes wait in the database and are announced later. */
  readonly announcer: AnnouncerState | 'degraded'
  /** By name, if the settings name any. */
  readonly regions?: Readonly<Record<string, AnnouncerState>>
}

type AnnouncerState = ReturnType<Announcer['state']>

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
