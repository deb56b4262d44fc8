import { type Kysely, sql, type Transaction } from 'kysely'
import { type KeyGrant, type KeyRecord, MAX_VERSION, type StoredKey } from '../../domain/key/key-record.ts'
import { DEFAULT_REGION } from '../../domain/region.ts'
import { KEPT_AFTER_EXPIRY_MS } from '../../domain/wire.ts'
import { keyOfRow, rowOf } from '../keys/rows/key-rows.ts'
import type { ProgressOf } from '../platform/database/refused.ts'
import type { Tables } from '../platform/database/tables.ts'
import { type Known, KnownKeys, newerGrant, type SeenEntry, type SeenRecords } from './known-keys.ts'

const KEYS_AT_ONCE = 500
/** More than a key has changed between a backup and its restore: no gateway has seen these versions. */
const VERSIONS_AHEAD = 1000

export interface Adopted extends Known {
  /** Revoked after the backup, as they are now. */
  readonly revoked: readonly StoredKey[]
  /** Suspended, resumed, edited or rotated after it. */
  readonly changed: number
}

/** Takes over what was changed after the backup, so that no revoked key works again. */
export async function adoptNewer(
  tx: Transaction<Tables>,
  seen: SeenRecords,
  { nowMs, progress }: { readonly nowMs: number; readonly progress: ProgressOf },
): Promise<Adopted> {
  const known = new KnownKeys(nowMs)
  const revoked: StoredKey[] = []
  let changed = 0
  for await (const { key, entries } of keysWithEntries(tx, seen, progress)) {
    known.add(key, entries)
    const grant = newerGrant(key, entries)
    if (grant === null) continue
    const adopted = { ...key, record: adoptedRecord(key.record, grant) }
    await adopt(tx, adopted, nowMs)
    if (grant.revokedAtMs !== null && key.record.revokedAtMs === null) {
      revoked.push(adopted)
    } else changed += 1
  }
  return { revoked, changed, ...known.result() }
}

/** All keys, with what Redis holds about each. */
export async function* keysWithEntries(
  database: Kysely<Tables>,
  seen: SeenRecords,
  progress: ProgressOf,
): AsyncGenerator<{ readonly key: StoredKey; readonly entries: readonly SeenEntry[] }> {
  const { count } = await database
    .selectFrom('keys')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  let [done, afterId] = [0, '']
  for (;;) {
    const rows = await database
      .selectFrom('keys')
      .selectAll()
      .where('id', '>', afterId)
      .orderBy('id')
      .limit(KEYS_AT_ONCE)
      .execute()
    const found = await seen.read(rows.map(({ digest }) => digest))
    for (const key of rows.map(keyOfRow)) yield { key, entries: found.get(key.digest) ?? [] }
    done += rows.length
    progress.show(done, count)
    if (rows.length < KEYS_AT_ONCE) return
    afterId = rows.at(-1)?.id ?? ''
  }
}

/** All that a record on the wire says about an existing key and that can change. */
function adoptedRecord(record: KeyRecord, grant: KeyGrant): KeyRecord {
  const { id, workspaceId, scopes, hint, ...changeable } = grant
  const { expiresAtMs, revokedAtMs, version } = changeable
  // A revoked record names no restriction.
  return revokedAtMs === null
    ? { ...record, ...changeable }
    : { ...record, expiresAtMs, revokedAtMs, version }
}

async function adopt(tx: Transaction<Tables>, key: StoredKey, nowMs: number): Promise<void> {
  const { id, ...columns } = rowOf(key, nowMs)
  await tx.updateTable('keys').set(columns).where('id', '=', id).execute()
}

/** Gives every key a version that no gateway has seen, and lets the console announce each that can still be asked for. */
export async function announceAgain(tx: Transaction<Tables>, nowMs: number): Promise<void> {
  const highest = sql.lit(MAX_VERSION)
  const ahead = sql.lit(VERSIONS_AHEAD)
  await sql`update keys set changed_at_ms = ${nowMs},
    version = case when version > ${highest} - ${ahead} then ${highest} else version + ${ahead} end`.execute(
    tx,
  )
  await tx.deleteFrom('outbox').execute()
  await sql`insert into outbox (digest, version, at_ms)
    select digest, version, ${nowMs} from keys where expires_at_ms > ${nowMs - KEPT_AFTER_EXPIRY_MS}`.execute(
    tx,
  )
  await tx.deleteFrom('region_outbox').execute()
  const keptSinceMs = nowMs - KEPT_AFTER_EXPIRY_MS
  await sql`insert into region_outbox (region, digest, version, at_ms)
    select regions.name, digest, version, ${nowMs} from regions cross join keys
    where regions.name <> ${DEFAULT_REGION} and expires_at_ms > ${keptSinceMs}`.execute(tx)
}
