import { randomBytes } from 'node:crypto'
import { open, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type Kysely, sql, type Transaction } from 'kysely'
import {
  DATABASE_SETTING,
  type Dialect,
  type ProgressDisplay,
  Refused,
} from '../platform/database/database.ts'
import { openPostgresForCopy } from '../platform/database/postgres/database.ts'
import { inBatches } from '../platform/database/query-parts.ts'
import {
  checkIntegrity,
  isLockedSqliteFile,
  lockSqliteFile,
  makeSingleFile,
} from '../platform/database/sqlite/database.ts'
import type { Tables } from '../platform/database/tables.ts'
import { openDatabase } from '../platform/open-database.ts'
import { MIGRATIONS } from '../schema.ts'
import { createPartitions, partitionsCovering } from '../usage/index.ts'
import { giveNewName } from './new-name.ts'
import { type AuditCheck, requireAuditChain, requireNoConsole, requireOwnPostgres } from './read-database.ts'

/** Tables that show that a console has been in use: a console that only started has filled others. */
const USED_TABLES = ['keys', 'audit', 'admin_tokens'] as const
/** Longer waits are those for a console that was not stopped. */
const LOCK_TIMEOUT_MS = '5000'

export interface CopyOptions extends AuditCheck {
  /** Replaces what the target holds. */
  readonly replace: boolean
  /** Of the setting or argument that names the target. */
  readonly name?: string
  readonly progress: ProgressDisplay
  /** Also copies an audit log with entries that no console wrote. Default: refused. */
  readonly allowsBrokenAudit?: boolean
}

/** Fills a new SQLite file. It is complete and checked once this resolves. @returns the number of rows */
export async function fillSqlite(
  source: Kysely<Tables>,
  file: string,
  options: Omit<CopyOptions, 'replace'>,
): Promise<number> {
  const { writer, close } = await openDatabase(`sqlite:${file}`, MIGRATIONS)
  let rows: number
  try {
    // Entries that a console on PostgreSQL was about to add to the chain are added by the next console.
    rows = await writer.transaction().execute(tx => copyRows(source, tx, 'sqlite', options.progress))
    await requireAuditChain(writer, 'the copy', options)
  } finally {
    await close()
  }
  makeSingleFile(file)
  checkIntegrity(file)
  return rows
}

/** All or nothing: a copy that is cut off leaves the database as it was. @returns the number of rows */
export async function fillPostgres(
  source: Kysely<Tables>,
  url: string,
  options: CopyOptions,
): Promise<number> {
  const { replace, name = DATABASE_SETTING } = options
  const target = await openPostgresForCopy(url, MIGRATIONS, name)
  try {
    await requireNoConsole(target)
    await requireOwnPostgres(target, name)
    return await target.transaction().execute(async tx => {
      await sql`select set_config('lock_timeout', ${LOCK_TIMEOUT_MS}, true)`.execute(tx)
      // Also keeps consoles out until the end.
      await sql`alter table audit disable trigger user`.execute(tx)
      if (!replace) await requireUnused(tx)
      await sql`truncate ${sql.join(COPIED_TABLES.map(({ table }) => sql.table(table)))}`.execute(tx)
      const rows = await copyRows(source, tx, 'postgres', options.progress)
      await requireAuditChain(tx, 'the copy', options)
      await sql`alter table audit enable trigger user`.execute(tx)
      return rows
    })
  } finally {
    await target.destroy()
  }
}

async function requireUnused(tx: Transaction<Tables>): Promise<void> {
  for (const table of USED_TABLES) {
    const row = await tx.selectFrom(table).select('id').limit(1).executeTakeFirst()
    if (row !== undefined) throw new Refused(notEmptyText('The PostgreSQL database'))
  }
}

export function notEmptyText(name: string): string {
  return `${name} holds data, so nothing was changed. Name an empty database; a restore replaces it with --replace`
}

/** SQLite binds at most 32,766 values; the widest table has 17 columns. */
const ROWS_AT_ONCE = 500
/** Tables that a migrated database fills itself. Triggers of `keys` fill `key_use`. */
const FILLED_BY_ITSELF: ReadonlySet<string> = new Set(['audit_head', 'key_use', 'webhook_receivers'])

type Row = Readonly<Record<string, unknown>>

/**
 * Copies every row, column by column, in one transaction of the target. Both have the schema of this version.
 * @param from must not change meanwhile
 * @param to without rows
 * @returns the number of rows
 * @throws Refused if the target does not hold as many rows of each table in the end
 */
async function copyRows(
  from: Kysely<Tables>,
  to: Transaction<Tables>,
  dialect: Dialect,
  progress: ProgressDisplay,
): Promise<number> {
  const counts = await countRows(from)
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0)
  if (dialect === 'postgres') await makePartitionsFor(from, to)
  const what = dialect === 'postgres' ? 'rows written, not committed yet' : 'rows copied'
  let done = 0
  for (const table of COPIED_TABLES) {
    if (FILLED_BY_ITSELF.has(table.table)) await sql`delete from ${sql.table(table.table)}`.execute(to)
    for await (const rows of readAll(from, table)) {
      await insert(to, table, rows)
      done += rows.length
      progress.show(done, total, what)
    }
  }
  requireSame(counts, await countRows(to))
  return total
}

function readAll(from: Kysely<Tables>, { table, columns }: CopiedTableKey): AsyncGenerator<readonly Row[]> {
  const key = sql.join(columns.map(column => sql.ref(column)))
  return inBatches(ROWS_AT_ONCE, async (last: Row | null) => {
    const after =
      last === null ? sql`` : sql`where (${key}) > (${sql.join(columns.map(column => last[column]))})`
    const { rows } = await sql<Row>`
      select * from ${sql.table(table)} ${after} order by ${key} limit ${ROWS_AT_ONCE}`.execute(from)
    return rows
  })
}

async function insert(to: Kysely<Tables>, { table }: CopiedTableKey, rows: readonly Row[]): Promise<void> {
  const columns = Object.keys(rows[0] ?? {})
  const names = sql.join(columns.map(column => sql.ref(column)))
  const values = sql.join(rows.map(row => sql`(${sql.join(columns.map(column => row[column]))})`))
  await sql`insert into ${sql.table(table)} (${names}) values ${values}`.execute(to)
}

/** By table. */
async function countRows(database: Kysely<Tables>): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>()
  for (const { table } of COPIED_TABLES) {
    const { rows } = await sql<{ count: number }>`select count(*) as count from ${sql.table(table)}`.execute(
      database,
    )
    counts.set(table, Number(rows[0]?.count))
  }
  return counts
}

function requireSame(from: ReadonlyMap<string, number>, to: ReadonlyMap<string, number>): void {
  const different = [...from].filter(([table, count]) => to.get(table) !== count)
  if (different.length === 0) return
  const counts = different.map(([table, count]) => `${table}: ${to.get(table)} of ${count} rows`)
  throw new Refused(`The copy does not match its source (${counts.join(', ')}), so it was undone. Repeat it`)
}

/** A partition for each count, also for those past their retention. */
async function makePartitionsFor(from: Kysely<Tables>, to: Transaction<Tables>): Promise<void> {
  for (const table of ['usage_hours', 'usage_days'] as const) {
    const { rows } = await sql<{ first: number | null; last: number | null }>`
      select min(bucket) as first, max(bucket) as last from ${sql.table(table)}`.execute(from)
    const { first = null, last = null } = rows[0] ?? {}
    if (first !== null && last !== null) await createPartitions(to, partitionsCovering(table, first, last))
  }
}

/** Kysely's own list: each database has it from its own migrations. */
type CopiedTable = Exclude<keyof Tables, 'kysely_migration'>

/**
 * Every table with the columns of its primary key. A table or column that is missing here, or not in `Tables`, does not
 * compile: none is forgotten in a copy. `keys` comes first: its triggers add rows to `key_use`, which its own rows then
 * replace.
 */
const PRIMARY_KEYS: { readonly [Table in CopiedTable]: readonly (keyof Tables[Table] & string)[] } = {
  keys: ['id'],
  workspace_plans: ['workspace_id'],
  outbox: ['region', 'digest', 'version'],
  regions: ['name'],
  audit: ['id'],
  audit_head: ['id'],
  audit_queue: ['id'],
  admin_tokens: ['id'],
  idempotent_responses: ['id'],
  key_use: ['key_id'],
  sessions: ['digest'],
  gateways: ['id'],
  confirmations: ['digest', 'version', 'gateway_id'],
  webhook_receivers: ['receiver'],
  webhook_deliveries: ['receiver', 'id'],
  workspace_webhooks: ['workspace_id'],
  signing_secrets: ['fingerprint'],
  usage_hours: ['workspace_id', 'key_id', 'bucket', 'route', 'code'],
  usage_days: ['workspace_id', 'key_id', 'bucket', 'route', 'code'],
  usage_gateways: ['gateway'],
  refusals: ['workspace_id', 'at_ms', 'id'],
  refusal_gaps: ['workspace_id'],
  limit_uses: ['id'],
}

interface CopiedTableKey {
  readonly table: string
  readonly columns: readonly string[]
}

export const COPIED_TABLES: readonly CopiedTableKey[] = Object.entries(PRIMARY_KEYS).map(
  ([table, columns]) => ({ table, columns }),
)

/** An unfinished file whose lock is there: the lock of a process that was killed is free. */
const UNFINISHED = /^.+\.unfinished-[0-9a-f]{8}(?=-lock$)/
const SIDE_FILES = ['', '-journal', '-wal', '-shm', '-lock']

/**
 * Runs `write` with a name beside the file that no other process uses, and removes what is left under it: several may write
 * a file of one name at once. Removes what killed ones have left in the folder.
 */
export async function withUnfinished<Result>(
  file: string,
  write: (unfinished: string) => Promise<Result>,
): Promise<Result> {
  await removeAbandoned(dirname(file))
  const unfinished = `${file}.unfinished-${randomBytes(4).toString('hex')}`
  const release = lockSqliteFile(`sqlite:${unfinished}`)
  try {
    return await write(unfinished)
  } finally {
    await removeDatabase(unfinished)
    release()
  }
}

async function removeAbandoned(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const [unfinished] = UNFINISHED.exec(name) ?? []
    if (unfinished === undefined || isLockedSqliteFile(join(folder, unfinished))) continue
    await removeDatabase(join(folder, unfinished))
  }
}

async function removeDatabase(file: string): Promise<void> {
  for (const suffix of SIDE_FILES) await rm(`${file}${suffix}`, { force: true })
}

/** Gives a whole file its final name, in the same directory. It is on the disk before, and replaces what has the name. */
export async function publish(unfinished: string, file: string): Promise<void> {
  await sync(unfinished)
  await rename(unfinished, file)
  await sync(dirname(file))
}

/** The same under a name that no file has. @returns false if one has it by now */
export async function publishNew(unfinished: string, file: string): Promise<boolean> {
  await sync(unfinished)
  if (!(await giveNewName(unfinished, file))) return false
  await sync(dirname(file))
  return true
}

export async function sync(path: string): Promise<void> {
  const handle = await open(path)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
