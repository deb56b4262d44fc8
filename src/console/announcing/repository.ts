import { sql, type Transaction } from 'kysely'
import type { StoredKey } from '../../domain/key/key-record.ts'
import type { ChangeWriter } from '../platform/database/change-writer.ts'
import { isChosen, rowPlace } from '../platform/database/chosen-rows.ts'
import type { Database, Dialect } from '../platform/database/database.ts'
import type { Tables } from '../platform/database/tables.ts'
import { shareBatches } from '../platform/jobs/share-runs.ts'
import {
  countGateways,
  type GatewayStatus,
  type KeyVersion,
  purgeConfirmations,
  readGatewayStatuses,
  recordGateways,
  shareReports,
} from './gateway-rows.ts'
import { createOutboxes } from './outbox-rows.ts'

/** Longer than a console that announces to a region is ever out of touch with the database while another one works. */
const REGION_FORGOTTEN_AFTER_MS = 600_000
const DELETED_AT_ONCE = 5_000

/** Changes that wait for regions, and what gateways report. */
export type AnnouncingRepository = ReturnType<typeof createAnnouncingRepository>

/** The keys whose records are announced. */
export interface AnnouncedKeys {
  findByDigest(digest: string): Promise<StoredKey | null>
  /** Those that exist, by digest; in one query. */
  findByDigests(digests: readonly string[]): Promise<ReadonlyMap<string, StoredKey>>
}

interface AnnouncingParts {
  readonly database: Database
  readonly writer: ChangeWriter
  /** Distinguishes the claims of consoles. */
  readonly consoleId: string
  readonly now: () => number
}

export function createAnnouncingRepository(parts: AnnouncingParts) {
  const { database, writer, now } = parts
  const { reader, dialect } = database
  const readStatuses = (versions: readonly KeyVersion[]) => readGatewayStatuses(reader, versions, dialect)
  // On PostgreSQL a burst would wait for the few connections.
  const statuses = dialect === 'postgres' ? shareBatches(readStatuses) : readStatuses
  return {
    /** The outbox of a region. */
    pendingIn: createOutboxes(parts),
    /** States that this console announces to these regions. One that was not registered gets the changes of all keys. */
    registerRegions: (names: readonly string[]) =>
      writer.run(tx => registerRegions(tx, names, { nowMs: now(), dialect })),
    /** Forgets regions that no console announces to any more. @returns their names */
    forgetRegions: () => writer.run(tx => forgetRegions(tx, now())),
    recordGateway: shareReports(reports => writer.run(tx => recordGateways(tx, reports, dialect)), now),
    /** Gateways that reported since then and did not sign off. */
    countGateways: (sinceMs: number) => countGateways(reader, sinceMs),
    /** Gateways that reported in the last hour. */
    listGatewayStatuses: async (change: KeyVersion): Promise<GatewayStatus[]> =>
      (await statuses([change]))(change),
    /** Deletes confirmations past their retention, and what waits for regions that are forgotten. */
    async purge(): Promise<void> {
      while (await writer.run(tx => purgeConfirmations(tx, now()))) {}
      while (await writer.run(tx => purgeForgotten(tx, dialect))) {}
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
  const rows = names.map(name => ({ name, seen_at_ms: nowMs, requeued_until: hasKeys ? '' : null }))
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
