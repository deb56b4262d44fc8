import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely'
import type { StoredKey } from '../../../domain/key/key-record.ts'
import { DEFAULT_REGION } from '../../../domain/region.ts'
import { isChosen, placeOf } from '../../platform/database/chosen-rows.ts'
import type { Dialect } from '../../platform/database/database.ts'
import type { OutboxRow, Tables } from '../../platform/database/tables.ts'
import type { PendingChange } from './pending-changes.ts'

/** How long other consoles leave a claimed change alone. */
const CLAIM_MS = 2000
/** Bounds the parameters of one statement, six a row. */
const ROWS_AT_ONCE = 1_000

/** Where the changes of a region wait: a table, and the condition that selects its rows. */
function outboxOf(region: string) {
  return region === DEFAULT_REGION
    ? { table: sql.table('outbox'), isHere: sql<boolean>`1 = 1` }
    : { table: sql.table('region_outbox'), isHere: sql<boolean>`region = ${region}` }
}

/**
 * Adds the changes to the outbox of each registered region. A region that is being registered waits for this transaction,
 * or this one sees it.
 * @returns one for each key, in the same order
 */
export async function enqueueChanges(
  tx: Transaction<Tables>,
  keys: readonly StoredKey[],
  atMs: number,
): Promise<PendingChange[]> {
  const changes = keys.map(({ digest, record }) => ({ digest, version: record.version, atMs }))
  if (changes.length === 0) return changes
  const regions = await tx.selectFrom('regions').select('name').execute()
  await insertChanges(
    tx,
    regions.map(({ name }) => name),
    changes,
  )
  return changes
}

/** A change that waits already keeps its time. */
export async function insertChanges(
  tx: Transaction<Tables>,
  regions: readonly string[],
  changes: readonly PendingChange[],
): Promise<void> {
  if (regions.includes(DEFAULT_REGION)) {
    const insert = tx.insertInto('outbox').values(changes.map(rowOf))
    await insert.onConflict(conflict => conflict.doNothing()).execute()
  }
  // One statement for all regions: a round trip for each would be most of the time of a change.
  const rows = regions
    .filter(region => region !== DEFAULT_REGION)
    .flatMap(region => changes.map(change => ({ ...rowOf(change), region })))
  for (let from = 0; from < rows.length; from += ROWS_AT_ONCE) {
    const insert = tx.insertInto('region_outbox').values(rows.slice(from, from + ROWS_AT_ONCE))
    await insert.onConflict(conflict => conflict.doNothing()).execute()
  }
}

/** Rows that a statement of SQLite examines or adds: it blocks the event loop meanwhile. */
const BLOCKING_ROWS = 1000

/** Whether a change of a key of this workspace that was committed until then is not announced yet. */
export async function hasPendingUntil(
  database: Kysely<Tables>,
  region: string,
  { workspaceId, atMs, dialect }: { workspaceId: string; atMs: number; dialect: Dialect },
): Promise<boolean> {
  const { table, isHere } = outboxOf(region)
  // Not a join: that might begin with all keys of the workspace.
  const isOwn = sql`exists (
    select keys.id from keys where keys.digest = pending.digest and keys.workspace_id = ${workspaceId})`
  if (dialect === 'sqlite') return hasAnyInStretches(database, table, { isHere, atMs, isOwn })
  const { rows } = await sql`
    select pending.digest from ${table} as pending
    where ${isHere} and pending.at_ms <= ${atMs} and ${isOwn} limit 1`.execute(database)
  return rows.length > 0
}

async function hasAnyInStretches(
  database: Kysely<Tables>,
  table: RawBuilder<unknown>,
  { isHere, atMs, isOwn }: { isHere: RawBuilder<boolean>; atMs: number; isOwn: RawBuilder<unknown> },
): Promise<boolean> {
  let end: number | null = 0
  while (end !== null) {
    const { rows }: { rows: { found: number; end_at: number | null }[] } = await sql<{
      found: number
      end_at: number | null
    }>`
      select count(case when pending.at_ms <= ${atMs} and ${isOwn} then 1 end) as found,
        case when count(*) = ${BLOCKING_ROWS} then max(place) end as end_at
      from (select rowid as place, digest, at_ms from ${table}
        where ${isHere} and rowid > ${end} order by rowid limit ${BLOCKING_ROWS}) as pending`.execute(
      database,
    )
    if ((rows[0]?.found ?? 0) > 0) return true
    end = rows[0]?.end_at ?? null
  }
  return false
}

/**
 * Claims the oldest changes that no other console is announcing, so that consoles share the work and take over from one
 * that dies. A claim further ahead than possible was made by a wrong clock and does not count.
 */
export async function claimChanges(
  tx: Transaction<Tables>,
  region: string,
  { consoleId, nowMs, limit, dialect }: { consoleId: string; nowMs: number; limit: number; dialect: Dialect },
): Promise<PendingChange[]> {
  const { table, isHere } = outboxOf(region)
  const place = placeOf(dialect)
  const unclaimed = sql`
    select ${place} from ${table}
    where ${isHere} and
      (claimed_by = ${consoleId} or claimed_until_ms <= ${nowMs} or claimed_until_ms > ${nowMs + 2 * CLAIM_MS})
    order by at_ms, digest, version limit ${limit}`
  const { rows } = await sql<OutboxRow>`
    update ${table} set claimed_by = ${consoleId}, claimed_until_ms = ${nowMs + CLAIM_MS}
    where ${isChosen(place, unclaimed, dialect)} returning digest, version, at_ms`.execute(tx)
  return rows.map(changeOfRow).sort(byTime)
}

export async function pendingChangesOf(
  database: Kysely<Tables>,
  region: string,
  digest: string,
): Promise<PendingChange[]> {
  const { table, isHere } = outboxOf(region)
  const { rows } = await sql<OutboxRow>`
    select digest, version, at_ms from ${table}
    where ${isHere} and digest = ${digest} order by version`.execute(database)
  return rows.map(changeOfRow)
}

export async function pendingSpan(
  database: Kysely<Tables>,
  region: string,
): Promise<{ oldestMs: number; newestMs: number } | null> {
  const { table, isHere } = outboxOf(region)
  const { rows } = await sql<{ complete: number; oldest: number | null; newest: number | null }>`
    select (select count(*) from regions where name = ${region} and requeued_until is null) as complete,
      (select min(at_ms) from ${table} where ${isHere}) as oldest,
      (select max(at_ms) from ${table} where ${isHere}) as newest`.execute(database)
  const [row] = rows
  if (row === undefined || Number(row.complete) === 0) {
    throw new Error(`Not every change of earlier keys is in the outbox of the region ${region} yet`)
  }
  if (row.oldest === null || row.newest === null) return null
  return { oldestMs: Number(row.oldest), newestMs: Number(row.newest) }
}

export async function countPending(database: Kysely<Tables>, region: string): Promise<number> {
  const { table, isHere } = outboxOf(region)
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from ${table} where ${isHere}`.execute(database)
  return Number(rows[0]?.count ?? 0)
}

export async function oldestPendingMs(database: Kysely<Tables>, region: string): Promise<number | null> {
  const { table, isHere } = outboxOf(region)
  const { rows } = await sql<{ oldest: number | null }>`
    select min(at_ms) as oldest from ${table} where ${isHere}`.execute(database)
  const oldest = rows[0]?.oldest ?? null
  return oldest === null ? null : Number(oldest)
}

export async function deletePendingChanges(
  tx: Transaction<Tables>,
  region: string,
  changes: readonly PendingChange[],
): Promise<void> {
  const { table, isHere } = outboxOf(region)
  for (const { digest, version } of changes) {
    await sql`delete from ${table} where ${isHere} and digest = ${digest} and version = ${version}`.execute(
      tx,
    )
  }
}

/** A change that a region has. */
export interface AnnouncedChange extends PendingChange {
  readonly region: string
}

/**
 * By the place of each row, and with conditions that every plan can check in one pass over the table: its statistics say nothing, since
 * it is nearly always empty. Skips rows that another console has locked, which rules out deadlocks: that console deletes or announces
 * them. A lost deletion only repeats an announcement, so the disk need not be synced.
 */
export async function deletePendingChangesUnlocked(
  tx: Transaction<Tables>,
  announced: readonly AnnouncedChange[],
): Promise<void> {
  await sql`set local synchronous_commit = off`.execute(tx)
  const ofDefault = announced.filter(({ region }) => region === DEFAULT_REGION)
  const ofOthers = announced.filter(({ region }) => region !== DEFAULT_REGION)
  if (ofDefault.length > 0) {
    const found = sql`
      select ctid from outbox
      where digest = any(${ofDefault.map(({ digest }) => digest)}::text[])
        and digest || ' ' || version = any(${ofDefault.map(({ digest, version }) => `${digest} ${version}`)}::text[])`
    await sql`delete from outbox where ${isChosen(sql`ctid`, found, 'postgres')}`.execute(tx)
  }
  if (ofOthers.length > 0) {
    const names = ofOthers.map(({ region, digest, version }) => `${region} ${digest} ${version}`)
    const found = sql`
      select ctid from region_outbox
      where region = any(${[...new Set(ofOthers.map(({ region }) => region))]}::text[])
        and digest = any(${ofOthers.map(({ digest }) => digest)}::text[])
        and region || ' ' || digest || ' ' || version = any(${names}::text[])`
    await sql`delete from region_outbox where ${isChosen(sql`ctid`, found, 'postgres')}`.execute(tx)
  }
}

/**
 * Puts every change since then into the outbox again; one already in it keeps its time. Keys that were only issued are
 * skipped: a Redis that lost them has no record, and gateways then ask the key service.
 */
export async function requeueChangesSince(
  tx: Transaction<Tables>,
  region: string,
  { sinceMs, nowMs, dialect }: { sinceMs: number; nowMs: number; dialect: Dialect },
): Promise<void> {
  if (dialect === 'postgres') {
    const changed = sql`from keys where version > 1 and changed_at_ms >= ${sinceMs} order by digest`
    return requeue(tx, region, changed, nowMs)
  }
  for (let after: Changed | undefined = { changed_at_ms: sinceMs, place: 0 }; after !== undefined; ) {
    after = await requeueAfter(tx, region, after, nowMs)
  }
}

/** Where a change of a key is in the index of changes. */
interface Changed {
  readonly changed_at_ms: number
  readonly place: number
}

/** @returns the last of these changes; undefined if none is left */
async function requeueAfter(
  tx: Transaction<Tables>,
  region: string,
  { changed_at_ms, place }: Changed,
  nowMs: number,
): Promise<Changed | undefined> {
  const changed = sql`from keys indexed by keys_by_change
    where version > 1 and (changed_at_ms, rowid) > (${changed_at_ms}, ${place})
    order by changed_at_ms, rowid limit`
  await requeue(tx, region, sql`${changed} ${BLOCKING_ROWS}`, nowMs)
  const { rows } = await sql<Changed>`
    select changed_at_ms, rowid as place ${changed} 1 offset ${BLOCKING_ROWS - 1}`.execute(tx)
  return rows[0]
}

async function requeue(
  tx: Transaction<Tables>,
  region: string,
  changed: RawBuilder<unknown>,
  nowMs: number,
): Promise<void> {
  if (region === DEFAULT_REGION) {
    await sql`
      insert into outbox (digest, version, at_ms) select digest, version, ${sql.lit(nowMs)} ${changed}
      on conflict (digest, version) do nothing`.execute(tx)
  } else {
    await sql`
      insert into region_outbox (region, digest, version, at_ms)
      select ${sql.lit(region)}, digest, version, ${sql.lit(nowMs)} ${changed}
      on conflict (region, digest, version) do nothing`.execute(tx)
  }
}

function rowOf({ digest, version, atMs }: PendingChange): OutboxRow {
  return { digest, version, at_ms: atMs, claimed_by: '', claimed_until_ms: 0 }
}

function changeOfRow({ digest, version, at_ms }: OutboxRow): PendingChange {
  return { digest, version, atMs: at_ms }
}

function byTime(a: PendingChange, b: PendingChange): number {
  return a.atMs - b.atMs || (a.digest < b.digest ? -1 : a.digest > b.digest ? 1 : a.version - b.version)
}
