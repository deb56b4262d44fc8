import { type Kysely, sql, type Transaction } from 'kysely'
import type { Clock } from '../../domain/clock.ts'
import { ChangeWriter } from './change-writer.ts'
import type { Database } from './database.ts'
import type { KeyCounts, KeyPage, KeyRepository, PendingChange, StoredKey } from './key-repository.ts'
import { keyOfRow, rowOf } from './key-rows.ts'
import type { KeyRow, OutboxRow, Tables } from './tables.ts'

/** @param clock says when a change is committed */
export function createKeyRepository({ reader, writer, close }: Database, clock: Clock): KeyRepository {
  const changes = new ChangeWriter(writer)
  const now = () => clock.wallMs()
  return {
    insert: key => changes.run(tx => insert(tx, key, now())),
    replace: key => changes.run(tx => replace(tx, key, now())),
    findById: async id => storedKeyOf(await selectKeys(reader).where('id', '=', id).executeTakeFirst()),
    findByDigest: async digest =>
      storedKeyOf(await selectKeys(reader).where('digest', '=', digest).executeTakeFirst()),
    list: question => list(reader, question),
    pendingChanges: limit => pendingChanges(reader, limit),
    pendingChangesOf: digest => pendingChangesOf(reader, digest),
    pendingSpan: () => pendingSpan(reader),
    forgetChanges: announced => changes.forget(announced),
    countByState: (nowMs, soonMs) => countByState(reader, nowMs, soonMs),
    close,
  }
}

async function insert(tx: Transaction<Tables>, key: StoredKey, atMs: number): Promise<PendingChange | null> {
  const { workspaceId, hint } = key.record
  const twin = await selectKeys(tx)
    .where('workspace_id', '=', workspaceId)
    .where('hint', '=', hint)
    .where('revoked_at_ms', 'is', null)
    .where('expires_at_ms', '>', atMs)
    .executeTakeFirst()
  if (twin !== undefined) return null
  await tx.insertInto('keys').values(rowOf(key)).execute()
  return noteChange(tx, key, atMs)
}

async function replace(tx: Transaction<Tables>, key: StoredKey, atMs: number): Promise<PendingChange | null> {
  const { id, ...changed } = rowOf(key)
  const { numUpdatedRows } = await tx
    .updateTable('keys')
    .set(changed)
    .where('id', '=', id)
    .where('version', '=', changed.version - 1)
    .executeTakeFirst()
  return numUpdatedRows === 0n ? null : noteChange(tx, key, atMs)
}

async function noteChange(tx: Transaction<Tables>, key: StoredKey, atMs: number): Promise<PendingChange> {
  const row = { digest: key.digest, version: key.record.version, at_ms: atMs }
  await tx.insertInto('outbox').values(row).execute()
  return changeOfRow(row)
}

async function list(
  database: Kysely<Tables>,
  { workspaceId, limit, afterId }: { workspaceId: string; limit: number; afterId: string | null },
): Promise<KeyPage> {
  let query = selectKeys(database).where('workspace_id', '=', workspaceId)
  if (afterId !== null) query = query.where('id', '<', afterId)
  // One more than asked for tells whether there is a next page.
  const rows = await query
    .orderBy('id', 'desc')
    .limit(limit + 1)
    .execute()
  const keys = rows.slice(0, limit).map(keyOfRow)
  return { keys, nextAfterId: rows.length > limit ? (keys.at(-1)?.record.id ?? null) : null }
}

async function pendingChanges(database: Kysely<Tables>, limit: number): Promise<PendingChange[]> {
  const query = database.selectFrom('outbox').selectAll()
  return (await query.orderBy('at_ms').orderBy('digest').orderBy('version').limit(limit).execute()).map(
    changeOfRow,
  )
}

async function pendingChangesOf(database: Kysely<Tables>, digest: string): Promise<PendingChange[]> {
  const query = database.selectFrom('outbox').selectAll().where('digest', '=', digest)
  return (await query.orderBy('version').execute()).map(changeOfRow)
}

function changeOfRow({ digest, version, at_ms }: OutboxRow): PendingChange {
  return { digest, version, atMs: at_ms }
}

async function pendingSpan(database: Kysely<Tables>): Promise<{ oldestMs: number; newestMs: number } | null> {
  const row = await database
    .selectFrom('outbox')
    .select(({ fn }) => [fn.min('at_ms').as('oldestMs'), fn.max('at_ms').as('newestMs')])
    .executeTakeFirst()
  // Over no rows SQL answers one row of nulls, which the types of the query don't say.
  if (row === undefined || row.oldestMs === null) return null
  return { oldestMs: Number(row.oldestMs), newestMs: Number(row.newestMs) }
}

/** One pass over the table; a revoked key is that, whether or not it would have expired by now. */
async function countByState(database: Kysely<Tables>, nowMs: number, soonMs: number): Promise<KeyCounts> {
  const state = sql<keyof KeyCounts>`case
    when revoked_at_ms is not null then 'revoked'
    when expires_at_ms <= ${nowMs} then 'expired'
    when expires_at_ms <= ${soonMs} then 'expiring'
    else 'active' end`
  const rows = await database
    .selectFrom('keys')
    .select(({ fn }) => [state.as('state'), fn.countAll().as('count')])
    .groupBy('state')
    .execute()
  const counts = { active: 0, expiring: 0, expired: 0, revoked: 0 }
  for (const row of rows) counts[row.state] = Number(row.count)
  return counts
}

function selectKeys(database: Kysely<Tables>) {
  return database.selectFrom('keys').selectAll()
}

function storedKeyOf(row: KeyRow | undefined): StoredKey | null {
  return row === undefined ? null : keyOfRow(row)
}
