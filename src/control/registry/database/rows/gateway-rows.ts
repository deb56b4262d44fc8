import { type Kysely, sql, type Transaction } from 'kysely'
import type { Dialect } from '../database.ts'
import type { GatewayReport, GatewayStatus } from '../key-repository.ts'
import type { Tables } from '../tables.ts'

/** Confirmations are read right after a revocation. */
export const CONFIRMATIONS_KEPT_MS = 3_600_000
const PURGED_AT_ONCE = 1_000
/** Bounds the parameters of one statement, four a row. */
const ROWS_AT_ONCE = 250

export async function recordGateway(
  tx: Transaction<Tables>,
  { id, name, region, isConnected, isLeaving, confirmed }: GatewayReport,
  { nowMs, dialect }: { nowMs: number; dialect: Dialect },
): Promise<void> {
  // If the machine fails, the gateway reports again within seconds.
  if (dialect === 'postgres') await sql`set local synchronous_commit = off`.execute(tx)
  if (isLeaving) {
    await tx.deleteFrom('gateways').where('id', '=', id).execute()
    return
  }
  // A new gateway has nothing cached, which is as safe as being disconnected.
  await tx
    .insertInto('gateways')
    .values({ id, name, region, seen_at_ms: nowMs, deaf_at_ms: nowMs })
    .onConflict(conflict =>
      conflict
        .column('id')
        .doUpdateSet({ name, region, seen_at_ms: nowMs, ...(isConnected ? {} : { deaf_at_ms: nowMs }) }),
    )
    .execute()
  for (let from = 0; from < confirmed.length; from += ROWS_AT_ONCE) {
    const rows = confirmed
      .slice(from, from + ROWS_AT_ONCE)
      .map(({ digest, version }) => ({ digest, version, gateway_id: id, at_ms: nowMs }))
    await tx
      .insertInto('confirmations')
      .values(rows)
      .onConflict(conflict => conflict.doNothing())
      .execute()
  }
}

export async function countGateways(database: Kysely<Tables>, sinceMs: number): Promise<number> {
  const { count } = await database
    .selectFrom('gateways')
    .where('seen_at_ms', '>=', sinceMs)
    .select(({ fn }) => fn.countAll().as('count'))
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** A gateway that confirmed a later version has applied this one. */
export async function listGatewayStatuses(
  database: Kysely<Tables>,
  { digest, version }: { digest: string; version: number },
): Promise<GatewayStatus[]> {
  const rows = await database
    .selectFrom('gateways')
    .selectAll()
    .select(({ exists, selectFrom }) =>
      exists(
        selectFrom('confirmations')
          .whereRef('confirmations.gateway_id', '=', 'gateways.id')
          .where('confirmations.digest', '=', digest)
          .where('confirmations.version', '>=', version)
          .select('confirmations.digest'),
      ).as('confirmed'),
    )
    .orderBy('name')
    .execute()
  return rows.map(row => ({
    name: row.name,
    region: row.region,
    seenAtMs: row.seen_at_ms,
    disconnectedAtMs: row.deaf_at_ms,
    confirmed: Boolean(row.confirmed),
  }))
}

/** @returns whether there may be more */
export async function purgeConfirmations(tx: Transaction<Tables>, nowMs: number): Promise<boolean> {
  const before = nowMs - CONFIRMATIONS_KEPT_MS
  await tx.deleteFrom('gateways').where('seen_at_ms', '<', before).execute()
  const { rows } = await sql`
    delete from confirmations where (digest, version, gateway_id) in (
      select digest, version, gateway_id from confirmations where at_ms < ${before} limit ${PURGED_AT_ONCE})
    returning version`.execute(tx)
  return rows.length === PURGED_AT_ONCE
}
