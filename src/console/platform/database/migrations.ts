import { type Kysely, sql, type Transaction } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { StartError } from '../../../domain/start-error.ts'
import { createRegions } from '../../announcing/rows/regions-migration.ts'
import { addAuditChain, addAuditMacs, createAuditQueueTables } from '../../audit/rows.ts'
import { addSearch } from '../../keys/search/search-migration.ts'
import { createTokenTable } from '../../tokens/rows.ts'
import { createUsageTables } from '../../usage/rows.ts'
import { webhookTables } from '../../webhooks/schema.ts'
import { appendOnlyTriggers } from './append-only.ts'
import type { Dialect } from './database.ts'
import type { Tables } from './tables.ts'

/** In the order of their names; never changed once released. */
function migrationsOf(dialect: Dialect): Readonly<Record<string, Migration>> {
  // Ids compare byte by byte, independent of the database's locale. SQLite does so by default.
  const text = dialect === 'postgres' ? sql`text collate "C"` : ('text' as const)
  return {
    '0001_keys_and_outbox': { up: database => createKeysAndOutbox(database, text) },
    '0002_rotation_audit_answers_use': {
      up: async database => {
        await addChangeTimes(database)
        await addClaims(database)
        await createAudit(database, text)
        await createResponseAndUseTables(database, text)
        for (const statement of appendOnlyTriggers('audit', dialect)) await statement.execute(database)
      },
    },
    '0003_sessions': { up: database => createSessions(database, text) },
    '0004_gateways': { up: database => createGateways(database, text) },
    '0005_webhooks': {
      up: async database => {
        const textType = typeof text === 'string' ? sql.raw(text) : text
        for (const statement of webhookTables(dialect, textType)) await statement.execute(database)
        await database.schema.createIndex('keys_by_expiry').on('keys').column('expires_at_ms').execute()
      },
    },
    '0006_suspension_and_edits': { up: database => addSuspensionAndEdits(database, text) },
    '0007_access': {
      up: async database => {
        await createTokenTable(database, text)
        await addAuditChain(database)
      },
    },
    '0008_signing_secrets': { up: database => createSigningSecrets(database, text) },
    '0009_search': { up: database => addSearch(database, dialect) },
    '0010_usage': { up: database => createUsageTables(database, dialect) },
    '0011_audit_queue': { up: database => createAuditQueueTables(database, text) },
    '0013_regions': { up: database => createRegions(database, text) },
    '0014_audit_macs': { up: database => addAuditMacs(database, dialect) },
  }
}

type TextType = 'text' | ReturnType<typeof sql>

async function createKeysAndOutbox(database: Kysely<unknown>, text: TextType): Promise<void> {
  await database.schema
    .createTable('keys')
    .addColumn('id', text, column => column.primaryKey())
    .addColumn('digest', text, column => column.notNull().unique())
    .addColumn('workspace_id', text, column => column.notNull())
    .addColumn('name', text, column => column.notNull())
    .addColumn('scopes', text, column => column.notNull())
    .addColumn('hint', text, column => column.notNull())
    .addColumn('created_at_ms', 'bigint', column => column.notNull())
    .addColumn('created_by', text, column => column.notNull())
    .addColumn('expires_at_ms', 'bigint', column => column.notNull())
    .addColumn('revoked_at_ms', 'bigint')
    .addColumn('rotated_from', text)
    .addColumn('replaced_by', text)
    .addColumn('version', 'integer', column => column.notNull().check(sql`version >= 1`))
    .execute()
  const index = (name: string, columns: string[]) =>
    database.schema.createIndex(name).on('keys').columns(columns).execute()
  await index('keys_by_workspace', ['workspace_id', 'id'])
  await index('keys_by_hint', ['workspace_id', 'hint'])
  await database.schema
    .createTable('outbox')
    .addColumn('digest', text, column => column.notNull())
    .addColumn('version', 'integer', column => column.notNull())
    .addColumn('at_ms', 'bigint', column => column.notNull())
    .addPrimaryKeyConstraint('outbox_key', ['digest', 'version'])
    .execute()
}

async function addChangeTimes(database: Kysely<unknown>): Promise<void> {
  await database.schema
    .alterTable('keys')
    .addColumn('changed_at_ms', 'bigint', column => column.notNull().defaultTo(0))
    .execute()
  await sql`update keys set changed_at_ms = coalesce(revoked_at_ms, created_at_ms)`.execute(database)
  // Partial: most keys were only issued and are never queried by this time.
  await sql`create index keys_by_change on keys (changed_at_ms) where version > 1`.execute(database)
}

async function addClaims(database: Kysely<unknown>): Promise<void> {
  const outbox = database.schema.alterTable('outbox')
  await outbox.addColumn('claimed_by', 'text', column => column.notNull().defaultTo('')).execute()
  await outbox.addColumn('claimed_until_ms', 'bigint', column => column.notNull().defaultTo(0)).execute()
  await database.schema.createIndex('outbox_by_time').on('outbox').column('at_ms').execute()
}

async function createAudit(database: Kysely<unknown>, text: TextType): Promise<void> {
  await database.schema
    .createTable('audit')
    .addColumn('id', text, column => column.primaryKey())
    .addColumn('workspace_id', text, column => column.notNull())
    .addColumn('at_ms', 'bigint', column => column.notNull())
    .addColumn('actor', text, column => column.notNull())
    .addColumn('action', text, column => column.notNull())
    .addColumn('key_id', text, column => column.notNull())
    .addColumn('detail', text, column => column.notNull())
    .execute()
  const columns = ['workspace_id', 'id']
  await database.schema.createIndex('audit_by_workspace').on('audit').columns(columns).execute()
}

async function createResponseAndUseTables(database: Kysely<unknown>, text: TextType): Promise<void> {
  await database.schema
    .createTable('answers')
    .addColumn('id', text, column => column.primaryKey())
    .addColumn('request', text, column => column.notNull())
    .addColumn('outcome', text, column => column.notNull())
    .addColumn('at_ms', 'bigint', column => column.notNull())
    .execute()
  await database.schema.createIndex('answers_by_time').on('answers').column('at_ms').execute()
  await database.schema
    .createTable('key_use')
    .addColumn('key_id', text, column => column.primaryKey().references('keys.id'))
    .addColumn('last_used_at_ms', 'bigint', column => column.notNull())
    .execute()
}

async function createSessions(database: Kysely<unknown>, text: TextType): Promise<void> {
  await database.schema
    .createTable('sessions')
    .addColumn('digest', text, column => column.primaryKey())
    .addColumn('subject', text, column => column.notNull())
    .addColumn('person', text, column => column.notNull())
    .addColumn('csrf_secret', text, column => column.notNull())
    .addColumn('started_at_ms', 'bigint', column => column.notNull())
    .addColumn('seen_at_ms', 'bigint', column => column.notNull())
    .execute()
  const index = (name: string, column: string) =>
    database.schema.createIndex(name).on('sessions').column(column).execute()
  await index('sessions_by_subject', 'subject')
  await index('sessions_by_time', 'seen_at_ms')
}

async function createGateways(database: Kysely<unknown>, text: TextType): Promise<void> {
  await database.schema
    .createTable('gateways')
    .addColumn('id', text, column => column.primaryKey())
    .addColumn('name', text, column => column.notNull())
    .addColumn('seen_at_ms', 'bigint', column => column.notNull())
    .addColumn('disconnected_at_ms', 'bigint', column => column.notNull())
    .execute()
  await database.schema
    .createTable('confirmations')
    .addColumn('digest', text, column => column.notNull())
    .addColumn('version', 'integer', column => column.notNull())
    .addColumn('gateway_id', text, column => column.notNull())
    .addColumn('at_ms', 'bigint', column => column.notNull())
    .addPrimaryKeyConstraint('confirmations_key', ['digest', 'version', 'gateway_id'])
    .execute()
  await database.schema.createIndex('confirmations_by_time').on('confirmations').column('at_ms').execute()
}

/** Nullable columns only: a console of the release before goes on inserting and updating without them. */
async function addSuspensionAndEdits(database: Kysely<unknown>, text: TextType): Promise<void> {
  const add = (name: string, type: TextType | 'bigint') =>
    database.schema.alterTable('keys').addColumn(name, type).execute()
  await add('suspended_at_ms', 'bigint')
  await add('description', text)
  await add('allowed_cidrs', text)
}

async function createSigningSecrets(database: Kysely<unknown>, text: TextType): Promise<void> {
  await database.schema
    .createTable('signing_secrets')
    .addColumn('fingerprint', text, column => column.primaryKey())
    .addColumn('first_used_at_ms', 'bigint', column => column.notNull())
    .execute()
}

/** The schema was written by a newer version of the program. */
export class NewerSchema extends StartError {}

/**
 * Migrates the schema. Refuses a newer one, which this version would misread.
 * @param last the migration to stop at; null for all
 */
export async function migrate(
  database: Kysely<Tables>,
  dialect: Dialect,
  last: string | null = null,
): Promise<void> {
  const migrations = migrationsOf(dialect)
  await missingMigrations(database, dialect)
  const migrator = new Migrator({
    db: database,
    provider: { getMigrations: async () => ({ ...migrations }) },
  })
  const { error } = await (last === null ? migrator.migrateToLatest() : migrator.migrateTo(last))
  if (error !== undefined) throw new Error('The database could not be migrated', { cause: error })
}

/** Makes the whole schema in the first schema of the search path, without a list of what was applied. */
export async function createSchema(tx: Transaction<Tables>, dialect: Dialect): Promise<void> {
  for (const { up } of Object.values(migrationsOf(dialect))) await up(tx)
}

/** Migrations of this version that the database lacks. @throws NewerSchema */
export async function missingMigrations(database: Kysely<Tables>, dialect: Dialect): Promise<string[]> {
  const applied = await appliedMigrations(database)
  const known = Object.keys(migrationsOf(dialect))
  const newer = applied.filter(name => !known.includes(name))
  if (newer.length > 0) throw new NewerSchema(newerSchemaText(newer))
  return known.filter(name => !applied.includes(name))
}

/** The last migration of the database, in the order of their names; null without any. */
export async function lastMigration(database: Kysely<Tables>): Promise<string | null> {
  return (await appliedMigrations(database)).toSorted().at(-1) ?? null
}

function newerSchemaText(names: readonly string[]): string {
  return (
    `The database was written by a newer Postern: it has ${names.join(', ')}, which this version ` +
    'does not know. Start that newer version again, or restore the backup made before it ran'
  )
}

async function appliedMigrations(database: Kysely<Tables>): Promise<string[]> {
  const tables = await database.introspection.getTables({ withInternalKyselyTables: true })
  if (!tables.some(table => table.name === 'kysely_migration')) return []
  const rows = await database.selectFrom('kysely_migration').select('name').execute()
  return rows.map(row => row.name)
}
