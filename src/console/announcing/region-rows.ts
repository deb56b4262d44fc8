import { sql, type Transaction } from 'kysely'
import type { Dialect } from '../platform/database/database.ts'
import { isChosen, rowPlace } from '../platform/database/query-parts.ts'
import type { Tables } from '../platform/database/tables.ts'
import { createOutboxes, type OutboxRowsParts } from './outbox-rows.ts'

/** Longer than a console that announces to a region is ever out of touch with the database while another one works. */
const REGION_FORGOTTEN_AFTER_MS = 600_000
const DELETED_AT_ONCE = 5_000

/** The regions that consoles announce to, and the changes that wait for each. */
export type RegionRows = ReturnType<typeof createRegionRows>

export function createRegionRows(parts: OutboxRowsParts) {
  const { database, now } = parts
  const { dialect, changes } = database
  return {
    pendingIn: createOutboxes(parts),
    /** States that this console announces to these regions. One that was not registered gets the changes of all keys. */
    registerRegions: (names: readonly string[]) =>
      changes.run(tx => registerRegions(tx, names, { nowMs: now(), dialect })),
    /** Forgets regions that no console announces to any more. @returns their names */
    forgetRegions: () => changes.run(tx => forgetRegions(tx, now())),
    /** Deletes what waits for regions that are forgotten. */
    async purge(): Promise<void> {
      while (await changes.run(tx => purgeForgotten(tx, dialect))) {}
    },
  }
}

/**
 * Registers the regions of a console. A new one waits for changes that are being committed: a transaction that has not seen
 * it ends before its keys are read, and a later one sees it.
 */
async function registerRegions(
  tx: Transaction<Tables>,
  names: readonly string[],
  { nowMs, dialect }: { nowMs: number; dialect: Dialect },
): Promise<void> {
  const known = await tx.selectFrom('regions').select('name').where('name', 'in', names).execute()
  if (known.length < names.length && dialect === 'postgres') {
    await sql`lock table keys in share row exclusive mode`.execute(tx)
  }
  // Before the first key, a new region has nothing to catch up with.
  const hasKeys = (await tx.selectFrom('keys').select('id').limit(1).executeTakeFirst()) !== undefined
  const unmarked = { mark: '', marked_at_ms: 0, mark_kept_at_ms: 0 }
  const rows = names.map(name => ({
    ...{ name, seen_at_ms: nowMs, requeued_until: hasKeys ? '' : null },
    ...unmarked,
  }))
  await tx
    .insertInto('regions')
    .values(rows)
    .onConflict(conflict => conflict.column('name').doUpdateSet({ seen_at_ms: nowMs }))
    .execute()
}

/** @returns names of regions that no console has registered for long */
async function forgetRegions(tx: Transaction<Tables>, nowMs: number): Promise<string[]> {
  const forgotten = await tx
    .deleteFrom('regions')
    .where('seen_at_ms', '<', nowMs - REGION_FORGOTTEN_AFTER_MS)
    .returning('name')
    .execute()
  return forgotten.map(({ name }) => name)
}

/** Deletes changes that wait for a forgotten region. @returns whether there may be more */
async function purgeForgotten(tx: Transaction<Tables>, dialect: Dialect): Promise<boolean> {
  const place = rowPlace(dialect)
  const ofOthers = sql`
    select ${place} from outbox where region not in (select name from regions) limit ${DELETED_AT_ONCE}`
  const { rows } = await sql`
    delete from outbox where ${isChosen(place, ofOthers, dialect)} returning version`.execute(tx)
  return rows.length === DELETED_AT_ONCE
}
