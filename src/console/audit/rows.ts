import { type Kysely, type RawBuilder, type SqlBool, sql } from 'kysely'
import { encodeTime } from 'ulid'
import { CHAIN_START, entryOfRow } from '../platform/audit/chain.ts'
import type { AuditAction, AuditEntry } from '../platform/audit/entries.ts'
import { type AuditTrust, genuineRows } from '../platform/audit/mac.ts'
import type { Database, Dialect } from '../platform/database/database.ts'
import { firstRows, listOf, mostFirstRows } from '../platform/database/first-rows.ts'
import type { AuditRow } from '../platform/database/tables.ts'

const ULID_TIME_LENGTH = 10
/** An id is never older than its entry, and newer only while the clock of a console was set back. */
const CLOCK_STEP_MS = 3_600_000
/** Entries that a page examines at most, in parts that leave the event loop to others. */
const EXAMINED_AT_MOST = 10_000
const EXAMINED_AT_ONCE = 500

/** A database, as far as its audit log is read. */
export type ReadableAudit = Pick<Database, 'reader' | 'dialect' | 'audit'>

export interface AuditPage {
  readonly entries: readonly AuditEntry[]
  /** Where the next page starts; null on the last. */
  readonly nextAfterId: string | null
}

/** Conditions on entries; all of them apply. */
export interface AuditFilter {
  readonly keyId?: string | undefined
  readonly actor?: string | undefined
  readonly action?: AuditAction | undefined
  /** In ms since the epoch, inclusive. */
  readonly fromMs?: number | undefined
  /** Exclusive. */
  readonly toMs?: number | undefined
}

interface AuditQuery {
  readonly filter: AuditFilter
  /** Null for all, and entries that concern no workspace. */
  readonly workspaces: readonly string[] | null
  readonly limit: number
  readonly afterId: string | null
}

/**
 * Newest first. Examines entries in order until the page is full; one that would have to examine too many is short, even
 * empty, before the last, as is one with rows that no console has written.
 */
export async function searchAudit(database: ReadableAudit, query: AuditQuery): Promise<AuditPage> {
  const { dialect, audit } = database
  const { limit } = query
  const rows: AuditRow[] = []
  // Finding where each of many workspaces goes on is work too.
  const places = (query.workspaces?.length ?? 1) - 1
  let { afterId } = query
  let count = limit + 1
  for (let left = EXAMINED_AT_MOST; left > 0; left -= count + places) {
    const part = await examineEntries(database, { ...query, afterId }, count)
    rows.push(...part.found)
    if (rows.length > limit) return pageOf(rows, limit, { endId: null, audit })
    afterId = part.endId
    if (afterId === null) break
    count = Math.max(limit + 1, Math.min(EXAMINED_AT_ONCE, mostFirstRows(query.workspaces, dialect)))
  }
  return pageOf(rows, limit, { endId: afterId, audit })
}

/** @param endId everything up to here was examined; null: everything */
function pageOf(
  rows: readonly AuditRow[],
  limit: number,
  { endId, audit }: { readonly endId: string | null; readonly audit: AuditTrust },
): AuditPage {
  const read = rows.slice(0, limit)
  const entries = genuineRows(read, audit).map(entryOfRow)
  return { entries, nextAfterId: rows.length > limit ? (read.at(-1)?.id ?? null) : endId }
}

interface ExaminedRow extends AuditRow {
  readonly is_match: boolean | 0 | 1
  readonly is_end: boolean | 0 | 1 | null
}

/** @returns what matches among the next entries, at most one more than the limit, and where they end; null: nothing is left */
async function examineEntries(
  { reader, dialect }: ReadableAudit,
  query: AuditQuery,
  count: number,
): Promise<{ readonly found: readonly AuditRow[]; readonly endId: string | null }> {
  const { filter, workspaces, limit, afterId } = query
  const order = { table: 'audit', value: 'id', id: 'id', descending: true } as const
  // All entries of a key are of one workspace, and few.
  const workspaceIds = filter.keyId === undefined ? workspaces : null
  const after = afterId === null ? null : { value: afterId, id: afterId }
  const entries = firstRows({ ...order, workspaceIds, within: indexedOf(query), after, count }, dialect)
  const isMatch = all(conditionsOf(filter, workspaces, dialect))
  const last = sql`(select examined.id from examined order by examined.id limit 1)`
  const { rows } = await sql<ExaminedRow>`
    with examined as (${entries})
    select audit.*, ${isMatch} as is_match,
      audit.id = ${last} and (select count(*) from examined) = ${count} as is_end
    from examined cross join audit
    where audit.id = examined.id and (${isMatch} or audit.id = ${last})
    order by audit.id desc limit ${limit + 2}`.execute(reader)
  const found = rows.filter(row => Boolean(row.is_match)).slice(0, limit + 1)
  return { found, endId: rows.find(row => Boolean(row.is_end))?.id ?? null }
}

/** What an index holds together, in the order of ids. */
function indexedOf({ filter, workspaces }: AuditQuery): RawBuilder<SqlBool>[] {
  const { keyId, actor, action, fromMs, toMs } = filter
  const conditions: RawBuilder<SqlBool>[] = []
  if (keyId !== undefined) conditions.push(sql`key_id = ${keyId}`)
  else if (actor !== undefined) {
    conditions.push(sql`actor = ${actor}`)
    if (action !== undefined && workspaces === null) conditions.push(sql`action = ${action}`)
  } else if (action !== undefined) conditions.push(sql`action = ${action}`)
  if (fromMs !== undefined) conditions.push(sql`id >= ${firstIdAt(fromMs)}`)
  if (toMs !== undefined) conditions.push(sql`id < ${firstIdAt(toMs + CLOCK_STEP_MS)}`)
  return conditions
}

function conditionsOf(
  { keyId, actor, action, fromMs, toMs }: AuditFilter,
  workspaces: readonly string[] | null,
  dialect: Dialect,
): RawBuilder<SqlBool>[] {
  const conditions: RawBuilder<SqlBool>[] = []
  // Where no key is asked for, the examined entries are of these workspaces.
  if (keyId !== undefined && workspaces !== null) {
    conditions.push(sql`audit.workspace_id in (select listed.value from ${listOf(workspaces, dialect)})`)
  }
  if (actor !== undefined) conditions.push(sql`audit.actor = ${actor}`)
  if (action !== undefined) conditions.push(sql`audit.action = ${action}`)
  if (fromMs !== undefined) conditions.push(sql`audit.at_ms >= ${fromMs}`)
  if (toMs !== undefined) conditions.push(sql`audit.at_ms < ${toMs}`)
  return conditions
}

function all(conditions: readonly RawBuilder<SqlBool>[]): RawBuilder<unknown> {
  return conditions.length === 0 ? sql`true` : sql`(${sql.join(conditions, sql` and `)})`
}

function firstIdAt(ms: number): string {
  return `audit_${encodeTime(Math.max(0, ms), ULID_TIME_LENGTH)}`
}

export interface ExportedAudit {
  readonly rows: readonly AuditRow[]
  /** Where the next part begins; null at the end. */
  readonly nextAfter: number | null
}

/** In the order of the chain: an entry that commits during an export is not skipped. */
export async function exportAudit(
  { reader, audit }: ReadableAudit,
  afterSequence: number,
  limit: number,
): Promise<ExportedAudit> {
  const read = await reader
    .selectFrom('audit')
    .selectAll()
    .where('sequence', '>', afterSequence)
    // No console gives a later place; the place of a row is where the next page begins.
    .where('sequence', '<=', Number.MAX_SAFE_INTEGER)
    .orderBy('sequence')
    .limit(limit)
    .execute()
  const nextAfter = read.length < limit ? null : (read.at(-1)?.sequence ?? null)
  return { rows: genuineRows(read, audit), nextAfter }
}

/** The chain of the table `audit`, and its indexes. It only adds: the release before runs on the new schema. */
export async function addAuditChain(database: Kysely<unknown>): Promise<void> {
  await addChain(database)
  await indexAudit(database)
}

async function addChain(database: Kysely<unknown>): Promise<void> {
  await database.schema.alterTable('audit').addColumn('sequence', 'bigint').execute()
  await database.schema.alterTable('audit').addColumn('hash', 'text').execute()
  await database.schema.createIndex('audit_by_sequence').unique().on('audit').column('sequence').execute()
  await database.schema
    .createTable('audit_head')
    .addColumn('id', 'integer', column => column.primaryKey())
    .addColumn('sequence', 'bigint', column => column.notNull())
    .addColumn('hash', 'text', column => column.notNull())
    .execute()
  const { sequence, hash } = CHAIN_START
  await sql`insert into audit_head (id, sequence, hash) values (1, ${sequence}, ${hash})`.execute(database)
}

async function indexAudit(database: Kysely<unknown>): Promise<void> {
  const index = (name: string, columns: string[]) =>
    database.schema.createIndex(name).on('audit').columns(columns).execute()
  await index('audit_by_key', ['key_id', 'id'])
  await index('audit_by_actor', ['actor', 'id'])
  await index('audit_by_action', ['action', 'id'])
  await index('audit_by_actor_and_action', ['actor', 'action', 'id'])
  await index('audit_by_workspace_and_actor', ['workspace_id', 'actor', 'id'])
  await index('audit_by_workspace_and_action', ['workspace_id', 'action', 'id'])
}

type TextType = 'text' | ReturnType<typeof sql>

/** A console of the release before goes on appending to the chain itself. */
export async function createAuditQueueTables(database: Kysely<unknown>, text: TextType): Promise<void> {
  await database.schema
    .createTable('audit_queue')
    .addColumn('id', text, column => column.primaryKey())
    .addColumn('workspace_id', text, column => column.notNull())
    .addColumn('at_ms', 'bigint', column => column.notNull())
    .addColumn('actor', text, column => column.notNull())
    .addColumn('action', text, column => column.notNull())
    .addColumn('key_id', text, column => column.notNull())
    .addColumn('detail', text, column => column.notNull())
    .execute()
}

/** All that an entry says, and its place. Its signature is renewed when a signing secret is replaced. */
const FIXED_COLUMNS = [
  ...['id', 'workspace_id', 'at_ms', 'actor', 'action', 'key_id', 'detail', 'sequence', 'hash'],
] as const

/** MACs of audit entries, each with the secret that signed it. */
export async function addAuditMacs(database: Kysely<unknown>, dialect: Dialect): Promise<void> {
  for (const table of ['audit', 'audit_queue']) {
    await database.schema.alterTable(table).addColumn('signed_by', 'text').execute()
    await database.schema.alterTable(table).addColumn('mac', 'text').execute()
  }
  await database.schema.alterTable('audit_queue').addColumn('rejected_at_ms', 'bigint').execute()
  await database.schema
    .alterTable('signing_secrets')
    .addColumn('signs_audit_at_ms', 'bigint', column => column.notNull().defaultTo(0))
    .execute()
  const columns = ['signed_by', 'sequence']
  await database.schema.createIndex('audit_by_signature').on('audit').columns(columns).execute()
  for (const statement of allowSignatures(dialect)) await statement.execute(database)
}

/** The triggers of the table `audit`, for updates of all but the signature. */
function allowSignatures(dialect: Dialect): RawBuilder<unknown>[] {
  const columns = sql.join(FIXED_COLUMNS.map(column => sql.ref(column)))
  if (dialect === 'sqlite') {
    return [
      sql`drop trigger audit_refuses_update`,
      sql`create trigger audit_refuses_update before update of ${columns} on audit
        begin select raise(abort, 'the table audit is append-only'); end`,
    ]
  }
  return [
    sql`drop trigger audit_refuses_changes on audit`,
    sql`create trigger audit_refuses_changes before update of ${columns} or delete or truncate on audit
      for each statement execute function audit_refuses_changes()`,
  ]
}
