import { sql, type Transaction } from 'kysely'
import { type KeyGrant, MAX_VERSION } from '../../../../domain/key/key-record.ts'
import { DEFAULT_REGION } from '../../../../domain/region.ts'
import { KEPT_AFTER_EXPIRY_MS } from '../../../../domain/wire.ts'
import type { StoredKey } from '../key-repository.ts'
import { keyOfRow } from '../rows/key-rows.ts'
import type { Tables } from '../tables.ts'
import type { ProgressOf } from './refused.ts'

const KEYS_AT_ONCE = 500
/** More than a key has changed between a backup and its restore: no gateway has seen these versions. */
const VERSIONS_AHEAD = 1000

/** Records that gateways may have seen after the backup. */
export interface SeenRecords {
  /** Those that are genuine, by digest. */
  read(digests: readonly string[]): Promise<ReadonlyMap<string, KeyGrant>>
}

export interface Adopted {
  /** Revoked after the backup, as they are now. */
  readonly revoked: readonly StoredKey[]
  /** Suspended, resumed, edited or rotated after it. */
  readonly changed: number
}

/** Takes over what was changed after the backup, so that no revoked key works again. */
export async function adoptNewer(
  tx: Transaction<Tables>,
  seen: SeenRecords,
  progress: ProgressOf,
): Promise<Adopted> {
  const { count } = await tx
    .selectFrom('keys')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  const revoked: StoredKey[] = []
  let [changed, done, afterId] = [0, 0, '']
  for (;;) {
    const rows = await tx
      .selectFrom('keys')
      .selectAll()
      .where('id', '>', afterId)
      .orderBy('id')
      .limit(KEYS_AT_ONCE)
      .execute()
    const grants = await seen.read(rows.map(({ digest }) => digest))
    for (const key of rows.map(keyOfRow)) {
      const grant = grants.get(key.digest)
      if (grant === undefined || !isNewer(grant, key)) continue
      await adopt(tx, grant)
      if (grant.revokedAtMs !== null && key.record.revokedAtMs === null) {
        revoked.push({ ...key, record: { ...key.record, ...grant } })
      } else changed += 1
    }
    done += rows.length
    progress.show(done, count)
    if (rows.length < KEYS_AT_ONCE) return { revoked, changed }
    afterId = rows.at(-1)?.id ?? ''
  }
}

function isNewer(grant: KeyGrant, { record }: StoredKey): boolean {
  return grant.id === record.id && grant.version > record.version
}

/** All that a record says about an existing key and that can change. */
async function adopt(tx: Transaction<Tables>, grant: KeyGrant): Promise<void> {
  const { id, expiresAtMs, revokedAtMs, suspendedAtMs, allowedCidrs, version } = grant
  const isRevoked = revokedAtMs !== null
  await tx
    .updateTable('keys')
    .set({
      expires_at_ms: expiresAtMs,
      revoked_at_ms: revokedAtMs,
      version,
      // A revoked record names no restriction.
      ...(isRevoked
        ? {}
        : {
            suspended_at_ms: suspendedAtMs,
            allowed_cidrs: allowedCidrs.length === 0 ? null : JSON.stringify(allowedCidrs),
          }),
    })
    .where('id', '=', id)
    .execute()
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
  await tx.deleteFrom('region_outbox').execute()
  // Of the others: a console puts the changes of all keys into the outbox of such a region.
  await tx.updateTable('regions').set({ requeued_until: '' }).where('name', '!=', DEFAULT_REGION).execute()
  await sql`insert into outbox (digest, version, at_ms)
    select digest, version, ${nowMs} from keys where expires_at_ms > ${nowMs - KEPT_AFTER_EXPIRY_MS}`.execute(
    tx,
  )
}
