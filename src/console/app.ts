import type { FastifyInstance } from 'fastify'
import { onReloadOf } from '../config/reloadable.ts'
import { createAnnouncing } from './announcing/index.ts'
import { createApiReference } from './api-reference/index.ts'
import { createAudit } from './audit/index.ts'
import { type ConsoleHealth, checkHealth } from './health.ts'
import { createInternalListener } from './key-service/index.ts'
import { createKeys } from './keys/index.ts'
import { type OpenRegistry, openRegistry } from './keys/open-registry.ts'
import { createOperationCounter } from './keys/operations/operation-counter.ts'
import { createLeaks } from './leaks/index.ts'
import { createAccessAudit } from './platform/access/access-audit.ts'
import type { Capability } from './platform/capability.ts'
import { type ConsoleContext, type ConsoleParts, createConsoleContext } from './platform/console-context.ts'
import { createIds } from './platform/ids.ts'
import { startHousekeeping } from './platform/jobs/housekeeping.ts'
import { createPublicServer } from './public-server.ts'
import { createSignIn } from './sign-in/index.ts'
import { createTokens } from './tokens/index.ts'
import { createUsageService } from './usage/index.ts'
import { createWebhooks, eventsBy } from './webhooks/index.ts'
import { createWorkspaces } from './workspaces/index.ts'

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
  const { config, clock, metrics, version = '0.0.0' } = context
  const open = await openRegistry(context, eventsBy(config))
  const { repository, regions, registry } = open
  const { signIn, programs, accessAudit } = createAccess(context, open)
  const usage = createUsageService(context, open)
  const leaks = createLeaks(context, registry)

  const capabilities: readonly Capability[] = [
    { purge: () => repository.purge(), stop: () => repository.close() },
    signIn.capability,
    createAnnouncing(open),
    createKeys({ registry, count: createOperationCounter(metrics) }, { usage, config }),
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
  let stopHousekeeping = () => {}
  let stopped: Promise<void> | null = null
  const stop = async () => {
    await app.close()
    await accessAudit.stop()
    // After the public listener: a revocation that waits for confirmations is completed by what gateways send here.
    await internal.close()
    stopHousekeeping()
    for (const capability of capabilities.toReversed()) await capability.stop?.()
  }
  return {
    app,
    internal,
    health: () => checkHealth(open),
    start() {
      for (const { start } of capabilities) start?.()
      stopHousekeeping = startHousekeeping({
        ...{ ...context, repository },
        regions: regions.list.map(({ name }) => name),
        purges: capabilities.flatMap(({ purge }) => purge ?? []),
      })
    },
    stop: () => {
      stopped ??= stop()
      return stopped
    },
  }
}

/** Who may call: people by sign-in, programs by token, and the record of what either was refused. */
function createAccess(context: ConsoleContext, { database, registry: { newAuditId } }: OpenRegistry) {
  const { config } = context
  const signIn = createSignIn({
    ...{ ...context, database, newAuditId },
    config: config.console,
    proxies: config.outgoing,
    onReload: onReloadOf(context.onReload, next => next.console),
    oneTimeLink: context.oneTimeLink ?? null,
  })
  const programs = createTokens({
    ...{ ...context, database, newAuditId },
    newTokenId: createIds('tok', context.randomBytes),
    keyPrefix: config.keys.prefix,
    signingKeys: () => context.secrets.value.signingKeys,
  })
  return { signIn, programs, accessAudit: createAccessAudit({ ...context, database, newAuditId }) }
}
