import type { KeyObject } from 'node:crypto'
import { narrowReload, reloadable } from '../../config/reloadable.ts'
import { DEFAULT_REGION } from '../../domain/region.ts'
import {
  type Announcer,
  type AnnouncingRepository,
  createAnnouncingRepository,
  createRegions,
  type Regions,
} from '../announcing/index.ts'
import { type AuditedDatabase, createAuditTrust } from '../platform/audit/mac.ts'
import { reportSchema } from '../platform/check-schema.ts'
import type { ConsoleContext } from '../platform/console-context.ts'
import { createChangeWriter } from '../platform/database/change-writer.ts'
import type { Database } from '../platform/database/database.ts'
import { DatabaseHealth, probeWrite } from '../platform/database/database-health.ts'
import { DATABASE_TROUBLES, type DatabaseTrouble } from '../platform/database/database-unavailable.ts'
import { createIds, type RandomBytes } from '../platform/database/ids.ts'
import type { Migrations } from '../platform/database/migrations.ts'
import { lockSqliteFile } from '../platform/database/sqlite/database.ts'
import type { Timers } from '../platform/jobs/timers.ts'
import { openDatabase, waitForDatabase } from '../platform/open-database.ts'
import { createKeyRepository, type KeyRepository } from './rows/key-repository.ts'
import { createOperationCounter, type OperationParts } from './run-operation.ts'
import { checkSigningSecrets } from './signing-secrets.ts'

/** What operations on keys need. */
export interface Registry extends OperationParts {
  readonly announcing: Pick<AnnouncingRepository, 'listGatewayStatuses'>
  readonly timers: Timers
  readonly randomBytes: RandomBytes
  readonly newKeyId: (nowMs: number) => string
  readonly newAuditId: (nowMs: number) => string
  readonly keyPrefix: string
  readonly signingKey: KeyObject
  readonly knownScopes: readonly string[]
  readonly knownPlans: readonly string[]
}

/** The registry with the components below it. The database is open; nothing is announced yet. */
export interface OpenRegistry {
  readonly database: AuditedDatabase
  readonly databaseHealth: DatabaseHealth
  readonly repository: KeyRepository
  readonly announcing: AnnouncingRepository
  readonly regions: Regions
  readonly registry: Registry
}

interface RegistryParts {
  /** Of this version. */
  readonly migrations: Migrations
  /** Default: the Redis of the settings, or none. */
  readonly announcer?: Announcer | undefined
  /** Makes the webhook events of a change. */
  readonly createEvents: Registry['createEvents']
}

export async function openRegistry(
  context: ConsoleContext,
  { migrations, announcer, createEvents }: RegistryParts,
): Promise<OpenRegistry> {
  const { clock, timers, consoleId } = context
  const now = () => clock.wallMs()
  // Asked once the console is open.
  const probe = async () => {
    await announcing.pendingIn(DEFAULT_REGION).countPending()
    await writer.announce(tx => probeWrite(tx, consoleId, now()))
  }
  const databaseHealth = new DatabaseHealth({ probe, clock, timers })
  const database = await openConfiguredDatabase(context, migrations, () => databaseHealth.doubt())
  await checkSigningSecrets(context, database).catch(async (error: unknown) => {
    await database.close()
    throw error
  })
  await reportSchema(context, database, migrations)
  const writer = createChangeWriter(database)
  const repository = createKeyRepository({ database, writer, clock })
  const announcing = createAnnouncingRepository({ database, writer, consoleId, now })
  const regions = createRegions(context, { announcing, keys: repository, announcer })
  await regions.register()
  const parts = { repository, announcing, inEachRegion: regions.inEach, createEvents }
  return {
    database,
    databaseHealth,
    repository,
    announcing,
    regions,
    registry: createRegistry(context, parts),
  }
}

function createRegistry(
  { config, clock, timers, randomBytes, secrets, metrics, onReload }: ConsoleContext,
  parts: Pick<Registry, 'repository' | 'announcing' | 'inEachRegion' | 'createEvents'>,
): Registry {
  const plans = reloadable(config, onReload, ({ limits }) => Object.keys(limits.plans))
  return {
    ...parts,
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
    get knownPlans() {
      return plans.value
    },
    count: createOperationCounter(metrics),
  }
}

/** A SQLite file is locked until the database is closed. */
async function openConfiguredDatabase(
  context: ConsoleContext,
  migrations: Migrations,
  onTrouble: () => void,
): Promise<AuditedDatabase> {
  const release = lockSqliteFile(context.config.database.url)
  try {
    const database = await awaitDatabase(context, migrations, onTrouble)
    return { ...database, audit: createAuditTrust(context), close: () => database.close().finally(release) }
  } catch (error) {
    release()
    throw error
  }
}

function awaitDatabase(
  context: ConsoleContext,
  migrations: Migrations,
  onTrouble: () => void,
): Promise<Database> {
  const { config, onReload, onWaiting, metrics } = context
  for (const kind of DATABASE_TROUBLES) metrics.databaseErrors.inc({ kind }, 0)
  const report = (kind: DatabaseTrouble) => {
    metrics.databaseErrors.inc({ kind })
    onTrouble()
  }
  const onUrlReload = narrowReload(onReload, next => next.database.url)
  // Read at each attempt: a reload may correct the password while the console waits.
  const url = reloadable(config.database.url, onUrlReload, current => current)
  return waitForDatabase(() => openDatabase(url.value, migrations, { onReload: onUrlReload, report }), {
    ...context,
    onWaiting: () => onWaiting?.('database'),
  })
}
