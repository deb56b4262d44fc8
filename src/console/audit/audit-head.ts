import type { Kysely } from 'kysely'
import type { Tables } from '../platform/database/tables.ts'
import type { ChainHead } from './audit-chain.ts'
import { type AuditTrust, checkChained } from './audit-mac.ts'

export async function readHead(database: Kysely<Tables>): Promise<ChainHead> {
  return database.selectFrom('audit_head').select(['sequence', 'hash']).executeTakeFirstOrThrow()
}

/** Whether an entry that was the newest once is still in its place. Nothing was cut off before it then, or written anew. */
export async function isInChain(
  database: Kysely<Tables>,
  { sequence, hash }: ChainHead,
  { keys }: AuditTrust,
): Promise<boolean> {
  if (sequence === 0) return true
  const query = database.selectFrom('audit').selectAll().where('sequence', '=', sequence)
  const row = await query.executeTakeFirst()
  return row?.hash === hash && (keys.size === 0 || checkChained(keys, row) !== 'invalid')
}
