import { onReloadOf, reloadable } from '../../config/reloadable.ts'
import { type Announcer, createMessageEncoder, createRegions, type Regions } from '../announcing/index.ts'
import { type AuditedDatabase, createAuditTrust } from '../platform/audit/mac.ts'
import { reportSchema } from '../platform/check-schema.ts'
import type { ConsoleContext } from '../platform/console-context.ts'
import type { Database } from '../platform/database/database.ts'
import { DatabaseHealth } from '../platform/database/database-health.ts'
import { DATABASE_TROUBLES, type DatabaseTrouble } from '../platform/database/database-unavailable.ts'
import { createIds } from '../platform/database/ids.ts'
import type { Migrations } from '../platform/database/migrations.ts'
import { lockSqliteFile } from '../platform/database/sqlite/database.ts'
import { openDatabase, waitForDatabase } from '../platform/open-database.ts'
import type { Registry } from './registry.ts'
import { createKeyRepository, type KeyRepository } from './rows/key-repository.ts'
import { checkSigningSecrets } from './signing-secrets.ts'

/** The registry with the components below it. The database is open; nothing is announced yet. */
export interface OpenRegistry {
  readonly database: AuditedDatabase
  readonly databaseHealth: DatabaseHealth
  readonly repository: KeyRepository
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
  const { clock, timers, consoleId, secrets } = context
  // Asked once the console is open.
  const probe = async () => {
    await repository.countPending()
    await repository.probeWrite()
  }
  const databaseHealth = new DatabaseHealth({ probe, clock, timers })
  const database = await openConfiguredDatabase(context, migrations, () => databaseHealth.doubt())
  await checkSigningSecrets(context, database).catch(async (error: unknown) => {
    await database.close()
    throw error
  })
  await reportSchema(context, database, migrations)
  const repository = createKeyRepository(database, clock, consoleId)
  const messageKey = () => secrets.value.messageKey
  const messagesTo = (region: string) =>
    createMessageEncoder({ sender: consoleId, region, clock, messageKey })
  const regions = createRegions(context, { repository, messagesTo, announcer })
  await regions.register()
  const registry = createRegistry(context, repository, regions, createEvents)
  return { database, databaseHealth, repository, regions, registry }
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
  const followUrl = onReloadOf(onReload, next => next.database.url)
  // Read at each attempt: a reload may correct the password while the console waits.
  const url = reloadable(config.database.url, followUrl, current => current)
  return waitForDatabase(() => openDatabase(url.value, migrations, { onReload: followUrl, report }), {
    ...context,
    onWaiting: () => onWaiting?.('database'),
  })
}

function createRegistry(
  { config, clock, timers, randomBytes, secrets }: ConsoleContext,
  repository: KeyRepository,
  regions: Regions,
  createEvents: Registry['createEvents'],
): Registry {
  return {
    repository,
    outbox: regions.outboxes,
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
    createEvents,
  }
}
