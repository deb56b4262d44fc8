import { type Kysely, type RawBuilder, sql } from 'kysely'
import { Migrator } from 'kysely/migration'
import { StartError } from '../../../domain/errors.ts'
import type { Dialect } from './database.ts'
import type { Tables } from './tables.ts'

/** Changes the schema of a database, in a transaction. */
type Migration = (database: Kysely<Tables>, dialect: Dialect) => Promise<void>

/** By their names, in the order of which they run. None is changed or renamed once it is released. */
export type Migrations = Readonly<Record<string, Migration>>

/**
 * Statements that create tables, or add columns and indexes.
 * @param text the type of ids and texts, which compare byte by byte, independent of the database's locale
 */
export type SchemaStatements = (dialect: Dialect, text: RawBuilder<unknown>) => readonly RawBuilder<unknown>[]

/** The migration that executes these statements, in this order. */
export function migrationOf(...parts: readonly SchemaStatements[]): Migration {
  return async (database, dialect) => {
    // SQLite compares bytes by default.
    const text = sql.raw(dialect === 'postgres' ? 'text collate "C"' : 'text')
    for (const statement of parts.flatMap(part => part(dialect, text))) await statement.execute(database)
  }
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
  migrations: Migrations,
  last: string | null = null,
): Promise<void> {
  const missing = await missingMigrations(database, migrations)
  // A lock that Kysely takes behind a pooler may stay with a session of the pooler, so it takes none at most starts.
  if (missing.length === 0) return
  let failure: unknown
  const noteFailure = (error: unknown) => {
    failure = error
    throw error
  }
  const ofKysely = Object.entries(migrations).map(([name, change]) => [
    name,
    { up: (database: Kysely<Tables>) => change(database, dialect).catch(noteFailure) },
  ])
  const migrator = new Migrator({
    db: database,
    provider: { getMigrations: async () => Object.fromEntries(ofKysely) },
  })
  const { error } = await (last === null ? migrator.migrateToLatest() : migrator.migrateTo(last))
  // Where the session of a migration has ended, Kysely's error is that it cannot release its lock.
  if (error !== undefined) throw new Error('The database could not be migrated', { cause: failure ?? error })
}

/** Makes the whole schema in the first schema of the search path, without a list of what was applied. */
export async function createSchema(
  tx: Kysely<Tables>,
  dialect: Dialect,
  migrations: Migrations,
): Promise<void> {
  for (const [, change] of Object.entries(migrations).toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    await change(tx, dialect)
  }
}

/** Migrations of this version that the database lacks. @throws NewerSchema */
export async function missingMigrations(database: Kysely<Tables>, migrations: Migrations): Promise<string[]> {
  const applied = await appliedMigrations(database)
  const known = Object.keys(migrations)
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

/** A table, column, constraint, index, trigger, function, rule, policy or view. */
export interface SchemaObject {
  /** Its kind and name. */
  readonly name: string
  /** Equal texts mean the same. */
  readonly definition: string
}

/** Where the schema of a database is not as the migrations make it. */
export interface SchemaDifference {
  readonly change: 'missing' | 'changed' | 'added'
  /** The kind and name of the object. */
  readonly name: string
}

/** @param expected as the migrations make them */
export function compareSchemas(
  expected: readonly SchemaObject[],
  actual: readonly SchemaObject[],
): SchemaDifference[] {
  const found = definitionsByName(actual)
  const wanted = definitionsByName(expected)
  return [...new Set([...found.keys(), ...wanted.keys()])].flatMap((name): SchemaDifference[] => {
    const [present, before] = [found.get(name), wanted.get(name)]
    if (present === before) return []
    if (before === undefined) return [{ change: 'added', name }]
    return [{ change: present === undefined ? 'missing' : 'changed', name }]
  })
}

/** A damaged catalogue can have two objects of one name. */
function definitionsByName(objects: readonly SchemaObject[]): ReadonlyMap<string, string> {
  const definitions = new Map<string, string>()
  for (const { name, definition } of objects) {
    const before = definitions.get(name)
    definitions.set(name, before === undefined ? definition : `${before}\n${definition}`)
  }
  return definitions
}

const MAX_NAMED = 5

/** `added trigger x on keys, missing index y and 3 more` */
export function describeDifferences(differences: readonly SchemaDifference[]): string {
  const named = differences.slice(0, MAX_NAMED).map(({ change, name }) => `${change} ${name}`)
  const others = differences.length - named.length
  return others > 0 ? `${named.join(', ')} and ${others} more` : named.join(', ')
}
