import { type Kysely, sql, type Transaction, type Updateable } from 'kysely'
import type { Dialect } from '../platform/database/database.ts'
import type { Tables } from '../platform/database/tables.ts'

/** Which Redis is announced to: the one that holds the same mark. */
export interface MarkRow {
  /** Empty until a console has marked one. */
  readonly mark: string
  /** Since when. */
  readonly markedAtMs: number
  /** When a console that announces there said so last; 0 until it has found the mark there. */
  readonly keptAtMs: number
}

/** Another console has marked its Redis: another one, or this one anew, whose mark is read again. */
export class OtherMark extends Error {
  constructor() {
    super('Another console has marked its Redis, which may be this one')
  }
}

export async function readMark(database: Kysely<Tables>, region: string): Promise<MarkRow> {
  const row = await database
    .selectFrom('regions')
    .select(['mark', 'marked_at_ms', 'mark_kept_at_ms'])
    .where('name', '=', region)
    .executeTakeFirst()
  if (row === undefined) throw new Error(`The region ${region} is not registered`)
  const { mark, marked_at_ms, mark_kept_at_ms } = row
  return { mark, markedAtMs: Number(marked_at_ms), keptAtMs: Number(mark_kept_at_ms) }
}

interface MarkChange {
  readonly from: string
  readonly to: string
  readonly nowMs: number
  readonly dialect: Dialect
}

/**
 * Changes the mark, and puts the changes of all keys into the outbox of the region again, as for one that was added.
 * @returns whether there are keys; null if another console has changed the mark
 */
export async function claimMark(
  tx: Transaction<Tables>,
  region: string,
  { from, to, nowMs, dialect }: MarkChange,
): Promise<{ readonly hasKeys: boolean } | null> {
  // A deletion of what only the other Redis has is over before the outbox is filled, and a later one sees the mark.
  if (dialect === 'postgres') await sql`lock table outbox in share row exclusive mode`.execute(tx)
  const hasKeys = (await tx.selectFrom('keys').select('id').limit(1).executeTakeFirst()) !== undefined
  const requeued_until = hasKeys ? '' : null
  const changed = { mark: to, marked_at_ms: nowMs, mark_kept_at_ms: 0, requeued_until }
  return (await updateMarked(tx, region, from, changed)) ? { hasKeys } : null
}

/** The same Redis under another mark. @returns whether it had this one */
export async function renewMark(
  tx: Transaction<Tables>,
  region: string,
  { from, to, nowMs }: Omit<MarkChange, 'dialect'>,
): Promise<boolean> {
  return updateMarked(tx, region, from, { mark: to, marked_at_ms: nowMs, mark_kept_at_ms: 0 })
}

/** @returns whether it is still the mark */
export async function keepMark(
  tx: Transaction<Tables>,
  region: string,
  { mark, nowMs }: { readonly mark: string; readonly nowMs: number },
): Promise<boolean> {
  return updateMarked(tx, region, mark, { mark_kept_at_ms: nowMs })
}

/** @returns whether the region has this mark: otherwise nothing is changed */
async function updateMarked(
  tx: Transaction<Tables>,
  region: string,
  mark: string,
  changed: Updateable<Tables['regions']>,
): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('regions')
    .set(changed)
    .where('name', '=', region)
    .where('mark', '=', mark)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}
