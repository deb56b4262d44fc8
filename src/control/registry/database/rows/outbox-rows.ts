import { type Kysely, sql, type Transaction } from 'kysely'
import type { Dialect } from '../database.ts'
import type { PendingChange, StoredKey } from '../key-repository.ts'
import type { OutboxRow, Tables } from '../tables.ts'

/** How long other consoles leave a claimed change alone. */
const CLAIM_MS = 2000

/** @returns one for each key, in the same order */
export async function enqueueChanges(
  tx: Transaction<Tables>,
  keys: readonly StoredKey[],
  atMs: number,
): Promise<PendingChange[]> {
  const changes = keys.map(({ digest, record }) => ({ digest, version: record.version, atMs }))
  if (changes.length > 0) await tx.insertInto('outbox').values(changes.map(rowOf)).execute()
  return changes
}

/** Whether a change of a key of this workspace that was committed until then is not announced yet. */
export async function hasPendingUntil(
  database: Kysely<Tables>,
  workspaceId: string,
  atMs: number,
): Promise<boolean> {
  const row = await database
    .selectFrom('outbox')
    .select('outbox.digest')
    .where('outbox.at_ms', '<=', atMs)
    // Not a join: that might begin with all keys of the workspace.
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('keys')
          .select('keys.id')
          .whereRef('keys.digest', '=', 'outbox.digest')
          .where('keys.workspace_id', '=', workspaceId),
      ),
    )
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/**
 * Claims the oldest changes that no other console is announcing, so that consoles share the work and take over from one
 * that dies. A claim further ahead than possible was made by a wrong clock and does not count.
 */
export async function claimChanges(
  tx: Transaction<Tables>,
  { consoleId, nowMs, limit, dialect }: { consoleId: string; nowMs: number; limit: number; dialect: Dialect },
): Promise<PendingChange[]> {
  const unlocked = dialect === 'postgres' ? sql`for update skip locked` : sql``
  const { rows } = await sql<OutboxRow>`
    update outbox set claimed_by = ${consoleId}, claimed_until_ms = ${nowMs + CLAIM_MS}
    where (digest, version) in (
      select digest, version from outbox
      where claimed_by = ${consoleId} or claimed_until_ms <= ${nowMs} or claimed_until_ms > ${nowMs + 2 * CLAIM_MS}
      order by at_ms, digest, version limit ${limit} ${unlocked})
    returning digest, version, at_ms`.execute(tx)
  return rows.map(changeOfRow).sort(byTime)
}

export async function pendingChangesOf(database: Kysely<Tables>, digest: string): Promise<PendingChange[]> {
  const query = database.selectFrom('outbox').selectAll().where('digest', '=', digest)
  return (await query.orderBy('version').execute()).map(changeOfRow)
}

export async function pendingSpan(
  database: Kysely<Tables>,
): Promise<{ oldestMs: number; newestMs: number } | null> {
  const row = await database
    .selectFrom('outbox')
    .select(({ fn }) => [fn.min('at_ms').as('oldestMs'), fn.max('at_ms').as('newestMs')])
    .executeTakeFirst()
  // Over no rows SQL returns one row of nulls, which the query's type does not say.
  if (row === undefined || row.oldestMs === null) return null
  return { oldestMs: Number(row.oldestMs), newestMs: Number(row.newestMs) }
}

export async function countPending(database: Kysely<Tables>): Promise<number> {
  const query = database.selectFrom('outbox').select(({ fn }) => fn.countAll<number>().as('count'))
  return (await query.executeTakeFirstOrThrow()).count
}

export async function deletePendingChanges(
  tx: Transaction<Tables>,
  changes: readonly PendingChange[],
): Promise<void> {
  for (const { digest, version } of changes) {
    await tx.deleteFrom('outbox').where('digest', '=', digest).where('version', '=', version).execute()
  }
}

/**
 * Skips rows that another console has locked, which rules out deadlocks: that console deletes or announces them. A lost
 * deletion only repeats an announcement, so the disk need not be synced.
 */
export async function deletePendingChangesUnlocked(
  tx: Transaction<Tables>,
  changes: readonly PendingChange[],
): Promise<void> {
  await sql`set local synchronous_commit = off`.execute(tx)
  const digests = changes.map(change => change.digest)
  const versions = changes.map(change => change.version)
  await sql`
    delete from outbox where (digest, version) in (
      select digest, version from outbox
      where (digest, version) in (select * from unnest(${digests}::text[], ${versions}::integer[]))
      for update skip locked)`.execute(tx)
}

/**
 * Puts every change since then into the outbox again; one already in it keeps its time. Keys that were only issued are
 * skipped: a Redis that lost them has no record, and gateways then ask the key service.
 */
export async function requeueChangesSince(
  tx: Transaction<Tables>,
  { sinceMs, nowMs }: { sinceMs: number; nowMs: number },
): Promise<void> {
  await sql`
    insert into outbox (digest, version, at_ms)
    select digest, version, ${sql.lit(nowMs)} from keys
    where version > 1 and changed_at_ms >= ${sinceMs} order by digest
    on conflict (digest, version) do nothing`.execute(tx)
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
