import type { Kysely } from 'kysely'
import type { StoredKey } from '../../../domain/key/key-record.ts'
import type { Database } from '../../platform/database/database.ts'
import { readKeyRow } from '../../platform/database/key-row.ts'
import { type PageOptions, takePage } from '../../platform/database/query-parts.ts'
import type { Tables } from '../../platform/database/tables.ts'
import type { shareBatches } from '../../platform/jobs/share-runs.ts'
import { countForSync } from '../search/count-keys.ts'

/** Keys that a statement of a sync reads, expired ones included. */
const EXAMINED_AT_ONCE = 10_000

/** Reading keys by what identifies them, and in the order of their ids. */
export type StoredKeys = ReturnType<typeof createStoredKeys>

export function createStoredKeys({ reader, dialect }: Database, share: typeof shareBatches) {
  const findByDigests = (digests: readonly string[]) => findKeys(reader, 'digest', digests)
  const keysById = share((ids: readonly string[]) => findKeys(reader, 'id', ids))
  return {
    findById: async (id: string): Promise<StoredKey | null> => (await keysById([id])).get(id) ?? null,
    findByDigest: async (digest: string): Promise<StoredKey | null> =>
      (await findByDigests([digest])).get(digest) ?? null,
    findByDigests,
    findByIds: (ids: readonly string[]) => findKeys(reader, 'id', ids),
    /** The present version of a key and when it was committed, read together; null without the key. */
    findVersion: async (id: string): Promise<{ version: number; committedAtMs: number } | null> => {
      const query = reader.selectFrom('keys').select(['version', 'changed_at_ms as committedAtMs'])
      return (await query.where('id', '=', id).executeTakeFirst()) ?? null
    },
    /** Newest first, by id: ids grow with time, and new keys never move a page. */
    async list({ workspaceId, limit, afterId }: PageOptions): Promise<KeyPage> {
      let query = selectKeys(reader).where('workspace_id', '=', workspaceId)
      if (afterId !== null) query = query.where('id', '<', afterId)
      const newestFirst = query.orderBy('id', 'desc').limit(limit + 1)
      const { rows, next } = takePage(await newestFirst.execute(), limit, ({ id }) => id)
      return { keys: rows.map(readKeyRow), nextAfterId: next }
    },
    listForSync: (range: SyncRange) => listForSync(reader, range),
    countForSync: (expiresAfterMs: number) => countForSync(reader, expiresAfterMs, dialect),
  }
}

export interface KeyPage {
  readonly keys: readonly StoredKey[]
  /** Where the next page starts; null on the last. */
  readonly nextAfterId: string | null
}

/** Keys by id. */
interface SyncRange {
  /** Those that expire later; null: all. */
  readonly expiresAfterMs: number | null
  readonly limit: number
  readonly afterId: string | null
}

/** Those that exist, by the values of the column; in one query. */
async function findKeys(
  database: Kysely<Tables>,
  column: 'id' | 'digest',
  values: readonly string[],
): Promise<ReadonlyMap<string, StoredKey>> {
  if (values.length === 0) return new Map()
  const rows = await selectKeys(database).where(column, 'in', values).execute()
  return new Map(rows.map(row => [row[column], readKeyRow(row)]))
}

/**
 * Oldest first, in any state. A page may be shorter than the limit, or empty: a statement examines a bounded number of keys. Of millions most may have
 * expired, and passing over all of them would take longer than a statement may.
 */
async function listForSync(
  database: Kysely<Tables>,
  { expiresAfterMs, limit, afterId }: SyncRange,
): Promise<KeyPage> {
  const endId = expiresAfterMs === null ? null : await findStretchEnd(database, afterId ?? '')
  let query = selectKeys(database)
    .where('id', '>', afterId ?? '')
    .orderBy('id')
    .limit(limit + 1)
  if (expiresAfterMs !== null) query = query.where('expires_at_ms', '>', expiresAfterMs)
  if (endId !== null) query = query.where('id', '<=', endId)
  const { rows, next } = takePage(await query.execute(), limit, ({ id }) => id, endId)
  return { keys: rows.map(readKeyRow), nextAfterId: next }
}

/** @returns null if fewer keys are left than a stretch has */
async function findStretchEnd(database: Kysely<Tables>, afterId: string): Promise<string | null> {
  const ids = database.selectFrom('keys').select('id').where('id', '>', afterId).orderBy('id')
  const end = await ids
    .offset(EXAMINED_AT_ONCE - 1)
    .limit(1)
    .executeTakeFirst()
  return end?.id ?? null
}

function selectKeys(database: Kysely<Tables>) {
  return database.selectFrom('keys').selectAll()
}
