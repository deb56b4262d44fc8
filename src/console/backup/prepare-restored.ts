import type { Transaction } from 'kysely'
import { appendAudit } from '../platform/audit/chain.ts'
import { type AuditContext, auditAccess, auditRevocation } from '../platform/audit/entries.ts'
import { type AuditKeys, UNSIGNED_AUDIT } from '../platform/audit/mac.ts'
import type { Database } from '../platform/database/database.ts'
import { type ProgressOf, Refused } from '../platform/database/refused.ts'
import type { Tables } from '../platform/database/tables.ts'
import { type Known, requireKnown, type SeenRecords } from './known-keys.ts'
import { type Adopted, adoptNewer, announceAgain } from './newer-records.ts'

export interface RestoreChoices {
  /** Null: revocations after the backup are not known. */
  readonly seen: SeenRecords | null
  /** Keys of which Redis has no record become as they were in the backup. */
  readonly allowsMissing: boolean
  /** Admin tokens of programs stay as they were in the backup, also those revoked since. */
  readonly keepsTokens: boolean
  /** Also restores an audit log that was changed, or has entries that no console wrote. */
  readonly allowsBrokenAudit: boolean
  /** Of the signing secrets: the entry of the restore is signed with the first. */
  readonly auditKeys: AuditKeys
  readonly nowMs: number
  readonly newAuditId: (nowMs: number) => string
  readonly progress: ProgressOf
}

export interface Restored {
  readonly keys: number
  readonly revoked: number
  readonly changed: number
  readonly tokensRevoked: number
  /** What Redis did not know; null if it was not asked. */
  readonly known: Known | null
}

/** The latest time of a `Date`. */
const MAX_DATE_MS = 8.64e15
const NOTHING_ADOPTED: Pick<Adopted, 'revoked' | 'changed'> = { revoked: [], changed: 0 }

/**
 * Changes the copy of a backup so that nothing that was ended after it works again. Where nothing else knows what was ended,
 * all of it is: sessions, and admin tokens of programs.
 * @throws Refused if keys that were revoked after the backup could work again
 */
export async function prepareRestored(
  { writer }: Pick<Database, 'writer'>,
  { seen, allowsMissing, keepsTokens, auditKeys, nowMs, newAuditId, progress }: RestoreChoices,
): Promise<Restored> {
  const context = (): AuditContext => ({
    id: newAuditId(nowMs),
    atMs: nowMs,
    caller: { actor: 'operator', address: 'local', requestId: 'restore' },
  })
  return writer.transaction().execute(async tx => {
    if (auditKeys.size === 0) await requireUnsigned(tx)
    const adopted = seen === null ? null : await adoptNewer(tx, seen, { nowMs, progress })
    if (adopted !== null) requireKnown(adopted, allowsMissing)
    const { revoked, changed } = adopted ?? NOTHING_ADOPTED
    await announceAgain(tx, nowMs)
    await tx.deleteFrom('sessions').execute()
    const tokensRevoked = keepsTokens ? 0 : await revokeTokens(tx, nowMs)
    const { count: keys } = await tx
      .selectFrom('keys')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow()
    const newest = await tx
      .selectFrom('audit')
      .select(({ fn }) => fn.max('at_ms').as('atMs'))
      // A forged entry can have any time.
      .where('at_ms', '<=', MAX_DATE_MS)
      .executeTakeFirst()
    const about = {
      newestEntry: newest?.atMs == null ? null : new Date(newest.atMs).toISOString(),
      keys,
      revokedSince: revoked.length,
      changedSince: changed,
      tokensRevoked,
      comparedWithRedis: adopted === null ? 'no' : 'yes',
      unknownToRedis: adopted?.unknown ?? keys,
    }
    const entries = [
      auditAccess('database.restored', about, context()),
      ...revoked.map(({ record }) => auditRevocation(record, 'restore', context())),
    ]
    await appendAudit(tx, entries, { dialect: 'sqlite', audit: { ...UNSIGNED_AUDIT, keys: auditKeys } })
    return { keys, revoked: revoked.length, changed, tokensRevoked, known: adopted }
  })
}

/** An entry of the restore without a MAC would look like one that no console wrote. */
async function requireUnsigned(tx: Transaction<Tables>): Promise<void> {
  const signed = await tx.selectFrom('audit').select('id').where('mac', 'is not', null).limit(1).execute()
  if (signed.length === 0) return
  throw new Refused(
    'keys.signingSecrets: set them as for the console. The restore is recorded in the audit log, whose entries are signed',
  )
}

async function revokeTokens(tx: Transaction<Tables>, nowMs: number): Promise<number> {
  const { numUpdatedRows } = await tx
    .updateTable('admin_tokens')
    .set({ revoked_at_ms: nowMs })
    .where('revoked_at_ms', 'is', null)
    .where('expires_at_ms', '>', nowMs)
    .executeTakeFirst()
  return Number(numUpdatedRows)
}
