import { type Kysely, sql, type Transaction } from 'kysely'
import type { Database, Dialect } from '../../platform/database/database.ts'
import { rowsFrom } from '../../platform/database/query-parts.ts'
import type { Tables } from '../../platform/database/tables.ts'
import type { shareBatches } from '../../platform/jobs/share-runs.ts'

/** A key in constant use is written once a second, not for each report. */
const ACCURACY_MS = 1000

/** When each key was last used. */
export function createKeyUses({ reader, dialect, changes }: Database, share: typeof shareBatches) {
  const usesById = share((ids: readonly string[]) => lastUses(reader, ids))
  return {
    lastUses: (ids: readonly string[]) => usesById(ids),
    /** Null for a key that was never used. */
    findLastUse: async (id: string): Promise<number | null> => (await usesById([id])).get(id) ?? null,
    recordUse: (lastUsedMs: ReadonlyMap<string, number>) =>
      changes.run(tx => recordUse(tx, lastUsedMs, dialect)),
  }
}

/**
 * Moves each time forward only, by at least a second; unknown ids are ignored. A use is never earlier than the key, although gateways may round it down to the minute. One statement in one order, so
 * that concurrent reports about the same keys cannot deadlock.
 */
async function recordUse(
  tx: Transaction<Tables>,
  lastUsedMs: ReadonlyMap<string, number>,
  dialect: Dialect,
): Promise<void> {
  const columns = [
    { values: [...lastUsedMs.keys()], type: 'text' },
    { values: [...lastUsedMs.values()], type: 'bigint' },
  ] as const
  await sql`
    insert into key_use (key_id, workspace_id, last_used_at_ms)
    select keys.id, keys.workspace_id, case when c1 < created_at_ms then created_at_ms else c1 end
    from ${rowsFrom(columns, dialect)} join keys on keys.id = reported.c0
    where true order by keys.id
    on conflict (key_id) do update set last_used_at_ms = excluded.last_used_at_ms
    where excluded.last_used_at_ms >= key_use.last_used_at_ms + ${ACCURACY_MS}`.execute(tx)
}

/** Only of keys that were ever used. */
async function lastUses(
  database: Kysely<Tables>,
  ids: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  if (ids.length === 0) return new Map()
  const rows = await database
    .selectFrom('key_use')
    .selectAll()
    .where('key_id', 'in', ids)
    .where('last_used_at_ms', '>', 0)
    .execute()
  return new Map(rows.map(row => [row.key_id, row.last_used_at_ms]))
}
