import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely'
import { MAX_LIFETIME_DAYS } from '../../domain/key/key-life.ts'
import { MAX_VERSION, type StoredKey } from '../../domain/key/key-record.ts'
import { KEPT_AFTER_EXPIRY_MS } from '../../domain/wire.ts'
import type { ChangeWriter, Database, Dialect } from '../platform/database/database.ts'
import { isChosen, rowPlace } from '../platform/database/query-parts.ts'
import type { Tables } from '../platform/database/tables.ts'
import { shareBatches } from '../platform/jobs/share-runs.ts'
import { claimMark, keepMark, OtherMark, readMark, renewMark } from './mark-rows.ts'

/** How long other consoles leave a claimed change alone. */
const CLAIM_MS = 2000
/** Bounds the parameters of one statement, six a row. */
const ROWS_AT_ONCE = 1_000
/** Bounds the time of one statement. */
const DELETED_AT_ONCE = 5_000
/** Rows that a statement of SQLite examines or adds: it blocks the event loop meanwhile. */
const BLOCKING_ROWS = 1000
/** No key expires later than this after it was changed, and Redis has forgotten it a day later. */
const LONGEST_RECORD_MS = MAX_LIFETIME_DAYS * 86_400_000 + KEPT_AFTER_EXPIRY_MS
/** Keys whose changes are put into the outbox of a new region in one transaction. */
const KEYS_AT_ONCE = 500

/** A committed change that is not announced yet. */
export interface PendingChange {
  readonly digest: string
  readonly version: number
  /** Time of the commit, in ms since the epoch. */
  readonly atMs: number
}

/** What Redis holds. */
export interface HeldVersion extends Pick<PendingChange, 'digest' | 'version'> {
  /** Whether it is of the key that the database has. */
  readonly isSameKey: boolean
}

/** @param key as it is after the change */
export function toPendingChange({ digest, record }: StoredKey, atMs: number): PendingChange {
  return { digest, version: record.version, atMs }
}

/** The outbox of one region: committed changes that are not announced to it yet. */
export type PendingChanges = ReturnType<ReturnType<typeof createOutboxes>>

export interface OutboxRowsParts {
  readonly database: Pick<Database, 'reader' | 'announcing' | 'dialect' | 'changes'>
  /** Distinguishes the claims of consoles. */
  readonly consoleId: string
  readonly now: () => number
}

/** The outboxes of this console's regions, by their names. */
export function createOutboxes({ database, consoleId, now }: OutboxRowsParts) {
  const { reader, announcing, dialect, changes } = database
  const deleteAnnounced = dialect === 'sqlite' ? deletionsWithNext(changes) : deletionsTogether(changes)
  return (region: string) => ({
    /** Oldest first; other consoles leave them alone while this one announces them. */
    claimChanges: (limit: number) =>
      changes.announce(tx => claimChanges(tx, region, { consoleId, nowMs: now(), limit, dialect })),
    /** In the order of versions. */
    findPendingChanges: (digest: string) => findPendingChanges(reader, region, digest),
    /**
     * Times of the oldest and the newest pending change; null if there is none.
     * @param mark of the Redis that the caller announces to; default: none is marked
     * @throws if the region is not registered, or not all its keys are requeued: changes may be missing from its outbox.
     *   OtherMark if changes are announced to another Redis
     */
    pendingSpan: (mark = '') => pendingSpan(announcing, region, mark),
    /** Whether a change of a key of the workspace that was committed until then is not announced yet. @param workspaceId null: of any */
    hasPendingUntil: (workspaceId: string | null, atMs: number) =>
      hasPendingUntil(reader, region, { workspaceId, atMs, dialect }),
    countPending: () => countPending(reader, region),
    /** Time of the oldest pending change; null if there is none. */
    oldestPendingMs: () => oldestPendingMs(reader, region),
    /** Once they are announced. @param mark of the Redis that has them: if another is marked by now, they stay; default: none is */
    async deletePendingChanges(announced: readonly PendingChange[], mark = ''): Promise<void> {
      if (announced.length > 0) await deleteAnnounced(announced.map(change => ({ ...change, region, mark })))
    },
    readMark: () => readMark(announcing, region),
    claimMark: (from: string, to: string) =>
      changes.run(tx => claimMark(tx, region, { from, to, nowMs: now(), dialect })),
    renewMark: (from: string, to: string) =>
      changes.run(tx => renewMark(tx, region, { from, to, nowMs: now() })),
    keepMark: (mark: string) => changes.run(tx => keepMark(tx, region, { mark, nowMs: now() })),
    /**
     * Gives each key a version above the one that Redis holds of an earlier key or state, which gateways would go on using.
     * @returns the digests of those that were behind
     */
    async outrank(held: readonly HeldVersion[]): Promise<ReadonlySet<string>> {
      const raised = new Set<string>()
      for (const each of held) if (await changes.run(tx => outrank(tx, each, now()))) raised.add(each.digest)
      return raised
    },
    /** Puts every change since then, other than issuing, into the outbox again. */
    requeueChangesSince: (sinceMs: number) =>
      changes.run(tx => requeueChangesSince(tx, region, { sinceMs, nowMs: now(), dialect })),
    /** For a region that was added: puts the changes of some more keys into its outbox. @returns whether there are more */
    requeueNextKeys: () => changes.run(tx => requeueNextKeys(tx, region, now())),
  })
}

type DeleteAnnounced = (announced: readonly AnnouncedChange[]) => Promise<void>

function deletionsWithNext(changes: ChangeWriter): DeleteAnnounced {
  return announced => changes.announceWithNext(tx => deleteEach(tx, announced))
}

/**
 * On PostgreSQL, where transactions run concurrently, one deletion at a time removes all changes announced meanwhile, to any region, so
 * that a burst does not spend most of its connections on deletions.
 */
function deletionsTogether(changes: ChangeWriter): DeleteAnnounced {
  return shareBatches(async (announced: readonly AnnouncedChange[]) => {
    for (let from = 0; from < announced.length; from += DELETED_AT_ONCE) {
      const some = announced.slice(from, from + DELETED_AT_ONCE)
      await changes.announce(tx => deleteUnlocked(tx, some))
    }
  })
}

/**
 * Adds the changes to the outbox of each registered region. A region that is being registered waits for this transaction,
 * or this one sees it. A change that waits already keeps its time.
 * @param only the region to add them to; default: each
 */
export async function enqueueChanges(
  tx: Transaction<Tables>,
  changes: readonly PendingChange[],
  only?: string,
): Promise<void> {
  if (changes.length === 0) return
  const registered = tx.selectFrom('regions').select('name')
  const regions = only === undefined ? await registered.execute() : [{ name: only }]
  // One statement for all regions: a round trip for each would be most of the time of a change.
  const rows = regions.flatMap(({ name: region }) =>
    changes.map(({ digest, version, atMs }) => ({
      region,
      digest,
      version,
      at_ms: atMs,
      claimed_by: '',
      claimed_until_ms: 0,
    })),
  )
  for (let from = 0; from < rows.length; from += ROWS_AT_ONCE) {
    const insert = tx.insertInto('outbox').values(rows.slice(from, from + ROWS_AT_ONCE))
    await insert.onConflict(conflict => conflict.doNothing()).execute()
  }
}

async function hasPendingUntil(
  database: Kysely<Tables>,
  region: string,
  { workspaceId, atMs, dialect }: { workspaceId: string | null; atMs: number; dialect: Dialect },
): Promise<boolean> {
  // Not a join: that might begin with all keys of the workspace.
  const isOwn =
    workspaceId === null
      ? sql`1 = 1`
      : sql`exists (
    select keys.id from keys where keys.digest = pending.digest and keys.workspace_id = ${workspaceId})`
  if (dialect === 'sqlite') return hasAnyInStretches(database, region, { atMs, isOwn })
  const { rows } = await sql`
    select pending.digest from outbox as pending
    where region = ${region} and pending.at_ms <= ${atMs} and ${isOwn} limit 1`.execute(database)
  return rows.length > 0
}

async function hasAnyInStretches(
  database: Kysely<Tables>,
  region: string,
  { atMs, isOwn }: { atMs: number; isOwn: RawBuilder<unknown> },
): Promise<boolean> {
  let end: number | null = 0
  // The sign keeps SQLite from an index, whose rows it would have to sort first.
  while (end !== null) {
    const { rows }: { rows: { found: number; end_at: number | null }[] } = await sql<{
      found: number
      end_at: number | null
    }>`
      select count(case when pending.at_ms <= ${atMs} and ${isOwn} then 1 end) as found,
        case when count(*) = ${BLOCKING_ROWS} then max(place) end as end_at
      from (select rowid as place, digest, at_ms from outbox
        where +region = ${region} and rowid > ${end} order by rowid limit ${BLOCKING_ROWS}) as pending`.execute(
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
async function claimChanges(
  tx: Transaction<Tables>,
  region: string,
  { consoleId, nowMs, limit, dialect }: { consoleId: string; nowMs: number; limit: number; dialect: Dialect },
): Promise<PendingChange[]> {
  const place = rowPlace(dialect)
  const unclaimed = sql`
    select ${place} from outbox
    where region = ${region} and
      (claimed_by = ${consoleId} or claimed_until_ms <= ${nowMs} or claimed_until_ms > ${nowMs + 2 * CLAIM_MS})
    order by at_ms, digest, version limit ${limit}`
  const { rows } = await sql<PendingChange>`
    update outbox set claimed_by = ${consoleId}, claimed_until_ms = ${nowMs + CLAIM_MS}
    where ${isChosen(place, unclaimed, dialect)} returning digest, version, at_ms as "atMs"`.execute(tx)
  return rows.toSorted(byTime)
}

async function findPendingChanges(
  database: Kysely<Tables>,
  region: string,
  digest: string,
): Promise<PendingChange[]> {
  const { rows } = await sql<PendingChange>`
    select digest, version, at_ms as "atMs" from outbox
    where region = ${region} and digest = ${digest} order by version`.execute(database)
  return rows
}

async function pendingSpan(
  database: Kysely<Tables>,
  region: string,
  mark: string,
): Promise<{ oldestMs: number; newestMs: number } | null> {
  const { rows } = await sql<{
    mark: string | null
    complete: number
    oldest: number | null
    newest: number | null
  }>`
    select (select mark from regions where name = ${region}) as mark,
      (select count(*) from regions where name = ${region} and requeued_until is null) as complete,
      (select min(at_ms) from outbox where region = ${region}) as oldest,
      (select max(at_ms) from outbox where region = ${region}) as newest`.execute(database)
  const [row] = rows
  if (row !== undefined && row.mark !== null && row.mark !== mark) throw new OtherMark()
  if (row === undefined || Number(row.complete) === 0) {
    throw new Error(`Not every change of earlier keys is in the outbox of the region ${region} yet`)
  }
  if (row.oldest === null || row.newest === null) return null
  return { oldestMs: Number(row.oldest), newestMs: Number(row.newest) }
}

async function countPending(database: Kysely<Tables>, region: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from outbox where region = ${region}`.execute(database)
  return Number(rows[0]?.count ?? 0)
}

async function oldestPendingMs(database: Kysely<Tables>, region: string): Promise<number | null> {
  const { rows } = await sql<{ oldest: number | null }>`
    select min(at_ms) as oldest from outbox where region = ${region}`.execute(database)
  const oldest = rows[0]?.oldest ?? null
  return oldest === null ? null : Number(oldest)
}

/** A change that a region has. */
interface AnnouncedChange extends PendingChange {
  readonly region: string
  /** Of its Redis. */
  readonly mark: string
}

async function deleteEach(tx: Transaction<Tables>, announced: readonly AnnouncedChange[]): Promise<void> {
  for (const { region, digest, version, mark } of announced) {
    const isIt = sql`region = ${region} and digest = ${digest} and version = ${version}`
    await sql`delete from outbox where ${isIt} and ${markOfRegion} = ${mark}`.execute(tx)
  }
}

/** Of the Redis that the region of an outbox row is announced to. */
const markOfRegion = sql`(select mark from regions where regions.name = outbox.region)`

/**
 * By the place of each row, and with conditions that every plan can check in one pass over the table: its statistics say nothing, since
 * it is nearly always empty. Skips rows that another console has locked, which rules out deadlocks: that console deletes or announces
 * them. A lost deletion only repeats an announcement, so the disk need not be synced.
 */
async function deleteUnlocked(tx: Transaction<Tables>, announced: readonly AnnouncedChange[]): Promise<void> {
  await sql`set local synchronous_commit = off`.execute(tx)
  const names = announced.map(({ region, digest, version, mark }) => `${region} ${digest} ${version} ${mark}`)
  const found = sql`
    select ctid from outbox
    where region = any(${[...new Set(announced.map(({ region }) => region))]}::text[])
      and digest = any(${announced.map(({ digest }) => digest)}::text[])
      and region || ' ' || digest || ' ' || version || ' ' || ${markOfRegion} = any(${names}::text[])`
  await sql`delete from outbox where ${isChosen(sql`ctid`, found, 'postgres')}`.execute(tx)
}

async function outrank(tx: Transaction<Tables>, held: HeldVersion, atMs: number): Promise<boolean> {
  const { digest, isSameKey } = held
  const version = Math.min(held.version + 1, MAX_VERSION)
  const { numUpdatedRows } = await tx
    .updateTable('keys')
    .set({ version, changed_at_ms: atMs })
    .where('digest', '=', digest)
    // That version of the same key may have been committed meanwhile.
    .where('version', '<', isSameKey ? held.version : version)
    .executeTakeFirst()
  if (numUpdatedRows > 0n) await enqueueChanges(tx, [{ digest, version, atMs }])
  return numUpdatedRows > 0n
}

/**
 * Puts every change since then into the outbox again; one already in it keeps its time. Keys that were only issued are
 * skipped: a Redis that lost them has no record, and gateways then ask the key service.
 */
async function requeueChangesSince(
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
  await sql`
    insert into outbox (region, digest, version, at_ms)
    select ${sql.lit(region)}, digest, version, ${sql.lit(nowMs)} ${changed}
    on conflict (region, digest, version) do nothing`.execute(tx)
}

/**
 * A region that was added may hold records of an earlier time, which have a good MAC: every change since is announced to it.
 * @returns whether there are more keys
 */
async function requeueNextKeys(tx: Transaction<Tables>, region: string, nowMs: number): Promise<boolean> {
  const row = await tx
    .selectFrom('regions')
    .select('requeued_until')
    .where('name', '=', region)
    .executeTakeFirst()
  if (row === undefined || row.requeued_until === null) return false
  const keys = await tx
    .selectFrom('keys')
    .select(['id', 'digest', 'version', 'changed_at_ms'])
    .where('id', '>', row.requeued_until)
    .orderBy('id')
    .limit(KEYS_AT_ONCE)
    .execute()
  // Not by its expiry now: what a Redis of an earlier time holds of it may expire later. By then a write removes that.
  const changes = keys
    .filter(key => key.version > 1 && key.changed_at_ms + LONGEST_RECORD_MS > nowMs)
    .map(({ digest, version }) => ({ digest, version, atMs: nowMs }))
    // As changes since some time are: in two orders, one of two transactions would wait for the other and be broken off.
    .toSorted(byTime)
  await enqueueChanges(tx, changes, region)
  const until = keys.length < KEYS_AT_ONCE ? null : (keys.at(-1)?.id ?? null)
  const { numUpdatedRows } = await tx
    .updateTable('regions')
    .set({ requeued_until: until })
    .where('name', '=', region)
    // Another console may have begun anew.
    .where('requeued_until', '=', row.requeued_until)
    .executeTakeFirst()
  return until !== null || numUpdatedRows === 0n
}

function byTime(a: PendingChange, b: PendingChange): number {
  return a.atMs - b.atMs || (a.digest < b.digest ? -1 : a.digest > b.digest ? 1 : a.version - b.version)
}
