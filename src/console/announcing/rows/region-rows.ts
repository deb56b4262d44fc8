import { sql, type Transaction } from 'kysely'
import { DEFAULT_REGION } from '../../../domain/region.ts'
import { KEPT_AFTER_EXPIRY_MS } from '../../../domain/wire.ts'
import { isChosen, placeOf } from '../../platform/database/chosen-rows.ts'
import type { Dialect } from '../../platform/database/database.ts'
import type { Tables } from '../../platform/database/tables.ts'
import { insertChanges } from './outbox-rows.ts'

/** Longer than a console that announces to a region is ever out of touch with the database while another one works. */
export const REGION_FORGOTTEN_AFTER_MS = 600_000
const KEYS_AT_ONCE = 500
const DELETED_AT_ONCE = 5_000

/**
 * Registers the regions of a console. A new one waits for changes that are being committed: a transaction that has not seen
 * it ends before its keys are read, and a later one sees it.
 */
export async function registerRegions(
  tx: Transaction<Tables>,
  names: readonly string[],
  { nowMs, dialect }: { nowMs: number; dialect: Dialect },
): Promise<void> {
  const known = await tx.selectFrom('regions').select('name').where('name', 'in', names).execute()
  if (known.length < names.length && dialect === 'postgres') {
    await sql`lock table keys in share row exclusive mode`.execute(tx)
  }
  const rows = names.map(name => ({ name, seen_at_ms: nowMs, requeued_until: '' }))
  await tx
    .insertInto('regions')
    .values(rows)
    .onConflict(conflict => conflict.column('name').doUpdateSet({ seen_at_ms: nowMs }))
    .execute()
}

/** @returns names of regions that no console has registered for long */
export async function forgetRegions(tx: Transaction<Tables>, nowMs: number): Promise<string[]> {
  const forgotten = await tx
    .deleteFrom('regions')
    .where('seen_at_ms', '<', nowMs - REGION_FORGOTTEN_AFTER_MS)
    .returning('name')
    .execute()
  return forgotten.map(({ name }) => name)
}

/** Deletes changes that wait for a forgotten region. @returns whether there may be more */
export async function purgeForgotten(tx: Transaction<Tables>, dialect: Dialect): Promise<boolean> {
  const place = placeOf(dialect)
  const ofOthers = sql`
    select ${place} from region_outbox where region not in (select name from regions) limit ${DELETED_AT_ONCE}`
  const { rows } = await sql`
    delete from region_outbox where ${isChosen(place, ofOthers, dialect)} returning version`.execute(tx)
  // The release before puts changes here without registering; it also announces and deletes them.
  const ofDefault = sql`
    select ${place} from outbox
    where not exists (select name from regions where name = ${DEFAULT_REGION}) limit ${DELETED_AT_ONCE}`
  const deleted = await sql`
    delete from outbox where ${isChosen(place, ofDefault, dialect)} returning version`.execute(tx)
  return rows.length === DELETED_AT_ONCE || deleted.rows.length === DELETED_AT_ONCE
}

/**
 * A region that was added may hold records of an earlier time, which have a good MAC: every change since is announced to it.
 * @returns whether there are more keys
 */
export async function requeueNextKeys(
  tx: Transaction<Tables>,
  region: string,
  nowMs: number,
): Promise<boolean> {
  const row = await tx
    .selectFrom('regions')
    .select('requeued_until')
    .where('name', '=', region)
    .executeTakeFirst()
  if (row === undefined || row.requeued_until === null) return false
  const keys = await tx
    .selectFrom('keys')
    .select(['id', 'digest', 'version', 'expires_at_ms'])
    .where('id', '>', row.requeued_until)
    .orderBy('id')
    .limit(KEYS_AT_ONCE)
    .execute()
  const changes = keys
    .filter(key => key.version > 1 && key.expires_at_ms + KEPT_AFTER_EXPIRY_MS > nowMs)
    .map(({ digest, version }) => ({ digest, version, atMs: nowMs }))
  if (changes.length > 0) await insertChanges(tx, [region], changes)
  const until = keys.length < KEYS_AT_ONCE ? null : (keys.at(-1)?.id ?? null)
  await tx.updateTable('regions').set({ requeued_until: until }).where('name', '=', region).execute()
  return until !== null
}
