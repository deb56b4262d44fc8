import { type Kysely, sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import type { Tables } from './tables.ts'

/** In the order of their names, never changed once released. SQL that SQLite and PostgreSQL both know. */
const MIGRATIONS: Readonly<Record<string, Migration>> = {
  '0001_keys_and_outbox': { up: createKeysAndOutbox },
}

async function createKeysAndOutbox(database: Kysely<unknown>): Promise<void> {
  await database.schema
    .createTable('keys')
    .addColumn('id', 'text', column => column.primaryKey())
    .addColumn('digest', 'text', column => column.notNull().unique())
    .addColumn('workspace_id', 'text', column => column.notNull())
    .addColumn('name', 'text', column => column.notNull())
    .addColumn('scopes', 'text', column => column.notNull())
    .addColumn('hint', 'text', column => column.notNull())
    .addColumn('created_at_ms', 'bigint', column => column.notNull())
    .addColumn('created_by', 'text', column => column.notNull())
    .addColumn('expires_at_ms', 'bigint', column => column.notNull())
    .addColumn('revoked_at_ms', 'bigint')
    .addColumn('rotated_from', 'text')
    .addColumn('replaced_by', 'text')
    .addColumn('version', 'integer', column => column.notNull().check(sql`version >= 1`))
    .execute()
  const index = (name: string, columns: string[]) =>
    database.schema.createIndex(name).on('keys').columns(columns).execute()
  await index('keys_by_workspace', ['workspace_id', 'id'])
  await index('keys_by_hint', ['workspace_id', 'hint'])
  await database.schema
    .createTable('outbox')
    .addColumn('digest', 'text', column => column.notNull())
    .addColumn('version', 'integer', column => column.notNull())
    .addColumn('at_ms', 'bigint', column => column.notNull())
    .addPrimaryKeyConstraint('outbox_key', ['digest', 'version'])
    .execute()
}

/** Brings the schema up to date, or refuses: an older program would read a newer schema wrong without noticing. */
export async function migrate(database: Kysely<Tables>): Promise<void> {
  const newer = (await appliedMigrations(database)).filter(name => !(name in MIGRATIONS))
  if (newer.length > 0) throw new Error(newerSchemaText(newer))
  const provider = { getMigrations: async () => ({ ...MIGRATIONS }) }
  const { error } = await new Migrator({ db: database, provider }).migrateToLatest()
  if (error !== undefined) throw new Error('The database could not be brought up to date', { cause: error })
}

function newerSchemaText(names: readonly string[]): string {
  return (
    `The database (database.url) was written by a newer Postern: it has ${names.join(', ')}, which this version ` +
    'does not know. Start that newer version again, or restore the backup made before it ran'
  )
}

async function appliedMigrations(database: Kysely<Tables>): Promise<string[]> {
  const tables = await database.introspection.getTables({ withInternalKyselyTables: true })
  if (!tables.some(table => table.name === 'kysely_migration')) return []
  const rows = await database.selectFrom('kysely_migration').select('name').execute()
  return rows.map(row => row.name)
}
