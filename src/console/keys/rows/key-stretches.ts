import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Tables } from '../../platform/database/tables.ts'

/** Keys of one statement: some milliseconds of the event loop. */
const EXAMINED_AT_ONCE = 10_000

/**
 * Sums over the keys of SQLite in statements of a bounded size. They read only the index that holds all that decides a
 * key's state: `workspace_id`, `expires_at_ms`, `id`, `revoked_at_ms`, `suspended_at_ms` and `replaced_by`.
 * @param workspaceId null: all
 * @param sums numbers by the names of their columns
 */
export async function sumInStretches<Name extends string>(
  database: Kysely<Tables>,
  workspaceId: string | null,
  sums: Readonly<Record<Name, RawBuilder<unknown>>>,
): Promise<Record<Name, number>> {
  // Object.keys() forgets the type of names.
  const names = Object.keys(sums) as Name[]
  const totals = new Map<Name, number>(names.map(name => [name, 0]))
  const columns = sql.join(names.map(name => sql`${sums[name]} as ${sql.ref(name)}`))
  const own = workspaceId === null ? sql`` : sql`workspace_id = ${workspaceId} and`
  const order = (direction: string) =>
    sql.raw(`order by workspace_id ${direction}, expires_at_ms ${direction}, id ${direction}`)
  let end: readonly unknown[] = ['', Number.MIN_SAFE_INTEGER, '']
  for (;;) {
    const { rows } = await sql<Record<Name, number> & { examined: number; end_at: string }>`
      with stretch as (
        select workspace_id, expires_at_ms, id, revoked_at_ms, suspended_at_ms, replaced_by
        from keys indexed by workspace_keys_by_expiry
        where ${own} (workspace_id, expires_at_ms, id) > (${sql.join(end)})
        ${order('asc')} limit ${EXAMINED_AT_ONCE})
      select ${columns}, count(*) as examined,
        (select json_array(workspace_id, expires_at_ms, id) from stretch ${order('desc')} limit 1) as end_at
      from stretch`.execute(database)
    const [row] = rows
    if (row === undefined) throw new Error('A sum returned no row')
    for (const name of names) totals.set(name, (totals.get(name) ?? 0) + row[name])
    if (row.examined < EXAMINED_AT_ONCE) break
    // As the statement wrote it.
    end = JSON.parse(row.end_at) as unknown[]
  }
  return Object.fromEntries(totals) as Record<Name, number>
}
