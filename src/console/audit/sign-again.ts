import { setImmediate } from 'node:timers/promises'
import type { Transaction } from 'kysely'
import type { ChangeWriter } from '../platform/database/change-writer.ts'
import type { Tables } from '../platform/database/tables.ts'
import type { AuditTarget } from './audit-chain.ts'
import { type AuditKeys, checkChained, signChained } from './audit-mac.ts'

/** SQLite does them in one turn of the event loop. */
const ROWS_AT_ONCE = 100
/** While another console still signs with a secret, its entries are left to it: two consoles must not sign in turns. */
const SIGNS_NO_MORE_MS = 300_000

/**
 * Signs with the first secret every entry that another given secret has signed, each after its MAC was checked: once it is
 * done, that secret can be removed, and the log is verified without it.
 */
export async function signAgain(
  writer: ChangeWriter,
  { now, audit }: AuditTarget & { now: () => number },
): Promise<void> {
  const { keys } = audit
  const [current, ...others] = keys.keys()
  if (current === undefined) return
  const signing = await writer.run(tx => stateSigning(tx, current, now()))
  for (const former of others) {
    if (signing.has(former)) continue
    let after: number | null = 0
    while (after !== null) {
      const from: number = after
      after = await writer.run(tx => signSome(tx, keys, former, from))
      await setImmediate()
    }
  }
}

/** States that this console signs with `current`. @returns what consoles sign with now */
async function stateSigning(
  tx: Transaction<Tables>,
  current: string,
  nowMs: number,
): Promise<ReadonlySet<string>> {
  await tx
    .insertInto('signing_secrets')
    .values({ fingerprint: current, first_used_at_ms: nowMs, signs_audit_at_ms: nowMs })
    .onConflict(conflict => conflict.column('fingerprint').doUpdateSet({ signs_audit_at_ms: nowMs }))
    .execute()
  const rows = await tx
    .selectFrom('signing_secrets')
    .select('fingerprint')
    .where('signs_audit_at_ms', '>', nowMs - SIGNS_NO_MORE_MS)
    .execute()
  return new Set(rows.map(({ fingerprint }) => fingerprint))
}

/** @returns where to go on; null at the end */
async function signSome(
  tx: Transaction<Tables>,
  keys: AuditKeys,
  former: string,
  after: number,
): Promise<number | null> {
  const rows = await tx
    .selectFrom('audit')
    .selectAll()
    .where('signed_by', '=', former)
    .where('sequence', '>', after)
    .where('sequence', '<=', Number.MAX_SAFE_INTEGER)
    .orderBy('sequence')
    .limit(ROWS_AT_ONCE)
    .execute()
  for (const row of rows) {
    if (checkChained(keys, row) !== 'valid') continue
    await tx.updateTable('audit').set(signChained(keys, row)).where('id', '=', row.id).execute()
  }
  return rows.length < ROWS_AT_ONCE ? null : (rows.at(-1)?.sequence ?? null)
}
