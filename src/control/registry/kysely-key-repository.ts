import type { Kysely, Transaction } from 'kysely'
import type { KeyRecord } from '../../domain/key-record.ts'
import type { KeyPage, KeyRepository, PendingChange, StoredKey } from './key-repository.ts'
import type { KeyRow, OutboxRow, Tables } from './tables.ts'

export function createKeyRepository(database: Kysely<Tables>): KeyRepository {
  return {
    insert: (key, atMs) => database.transaction().execute(tx => insert(tx, key, atMs)),
    replace: (key, atMs) => database.transaction().execute(tx => replace(tx, key, atMs)),
    findById: async id => storedKeyOf(await selectKeys(database).where('id', '=', id).executeTakeFirst()),
    findByDigest: async digest =>
      storedKeyOf(await selectKeys(database).where('digest', '=', digest).executeTakeFirst()),
    list: question => list(database, question),
    pendingChanges: limit => pendingChanges(database, limit),
    pendingChangesOf: digest => pendingChangesOf(database, digest),
    pendingSpan: () => pendingSpan(database),
    forgetChanges: changes => database.transaction().execute(tx => forgetChanges(tx, changes)),
    close: () => database.destroy(),
  }
}

async function insert(
  tx: Transaction<Tables>,
  key: StoredKey,
  atMs: number,
): Promise<'inserted' | 'hint_taken'> {
  const { workspaceId, hint } = key.record
  const twin = await selectKeys(tx)
    .where('workspace_id', '=', workspaceId)
    .where('hint', '=', hint)
    .where('revoked_at_ms', 'is', null)
    .where('expires_at_ms', '>', atMs)
    .executeTakeFirst()
  if (twin !== undefined) return 'hint_taken'
  await tx.insertInto('keys').values(rowOf(key)).execute()
  await noteChange(tx, key, atMs)
  return 'inserted'
}

async function replace(tx: Transaction<Tables>, key: StoredKey, atMs: number): Promise<boolean> {
  const { id, ...changed } = rowOf(key)
  const { numUpdatedRows } = await tx
    .updateTable('keys')
    .set(changed)
    .where('id', '=', id)
    .where('version', '=', changed.version - 1)
    .executeTakeFirst()
  if (numUpdatedRows === 0n) return false
  await noteChange(tx, key, atMs)
  return true
}

async function noteChange(tx: Transaction<Tables>, key: StoredKey, atMs: number): Promise<void> {
  const change = { digest: key.digest, version: key.record.version, at_ms: atMs }
  await tx.insertInto('outbox').values(change).execute()
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

async function forgetChanges(
  tx: Transaction<Tables>,
  changes: readonly Pick<PendingChange, 'digest' | 'version'>[],
): Promise<void> {
  for (const { digest, version } of changes) {
    await tx.deleteFrom('outbox').where('digest', '=', digest).where('version', '=', version).execute()
  }
}

function selectKeys(database: Kysely<Tables>) {
  return database.selectFrom('keys').selectAll()
}

function storedKeyOf(row: KeyRow | undefined): StoredKey | null {
  return row === undefined ? null : keyOfRow(row)
}

function keyOfRow(row: KeyRow): StoredKey {
  const record: KeyRecord = {
    id: row.id,
    workspaceId: row.workspace_id,
    name: row.name,
    // Only rowOf() below writes this column.
    scopes: JSON.parse(row.scopes) as string[],
    hint: row.hint,
    createdAtMs: row.created_at_ms,
    createdBy: row.created_by,
    expiresAtMs: row.expires_at_ms,
    revokedAtMs: row.revoked_at_ms,
    rotatedFrom: row.rotated_from,
    replacedBy: row.replaced_by,
    version: row.version,
  }
  return { record, digest: row.digest }
}

function rowOf({ record, digest }: StoredKey): KeyRow {
  return {
    id: record.id,
    digest,
    workspace_id: record.workspaceId,
    name: record.name,
    scopes: JSON.stringify(record.scopes),
    hint: record.hint,
    created_at_ms: record.createdAtMs,
    created_by: record.createdBy,
    expires_at_ms: record.expiresAtMs,
    revoked_at_ms: record.revokedAtMs,
    rotated_from: record.rotatedFrom,
    replaced_by: record.replacedBy,
    version: record.version,
  }
}
