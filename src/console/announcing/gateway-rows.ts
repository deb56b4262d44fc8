import { type Kysely, sql, type Transaction } from 'kysely'
import type { Database, Dialect } from '../platform/database/database.ts'
import { rowsFrom } from '../platform/database/query-parts.ts'
import type { Tables } from '../platform/database/tables.ts'
import { shareBatches } from '../platform/jobs/share-runs.ts'

/** Confirmations are read right after a revocation. */
export const CONFIRMATIONS_KEPT_MS = 3_600_000
const PURGED_AT_ONCE = 1_000
/** Bounds the time of one statement, which blocks the event loop on SQLite. */
const ROWS_AT_ONCE = 500
/** Bounds a transaction to some ten milliseconds. */
const MAX_CONFIRMATIONS = 5_000
const MAX_GATEWAYS = 1_000

/** What gateways report: that they are there, and which changes they have applied. */
export type GatewayRows = ReturnType<typeof createGatewayRows>

export function createGatewayRows({ reader, dialect, changes }: Database, now: () => number) {
  const readStatuses = (versions: readonly KeyVersion[]) => readGatewayStatuses(reader, versions, dialect)
  // On PostgreSQL a burst would wait for the few connections.
  const statuses = dialect === 'postgres' ? shareBatches(readStatuses) : readStatuses
  return {
    recordGateway: shareReports(reports => changes.run(tx => recordGateways(tx, reports, dialect)), now),
    /** Gateways that reported since then and did not sign off. */
    countGateways: (sinceMs: number) => countGateways(reader, sinceMs),
    /** Gateways that reported in the last hour. */
    listGatewayStatuses: async (change: KeyVersion): Promise<GatewayStatus[]> =>
      (await statuses([change]))(change),
    /** Deletes confirmations past their retention. */
    async purge(): Promise<void> {
      while (await changes.run(tx => purgeConfirmations(tx, now()))) {}
    },
  }
}

/** What a gateway reports about itself. */
export interface GatewayReport {
  readonly id: string
  /** Shown to people. */
  readonly name: string
  /** Whose Redis it reads; `default` if it has not said. */
  readonly region: string
  /** Whether it receives invalidations. */
  readonly isConnected: boolean
  /** Whether it is shutting down. */
  readonly isLeaving: boolean
  /** Changes it has applied. */
  readonly confirmed: readonly { readonly digest: string; readonly version: number }[]
}

/** A gateway with respect to one change. Times are by the clock of the console that received its report. */
export interface GatewayStatus {
  readonly name: string
  readonly region: string
  readonly seenAtMs: number
  /** When it last trusted nothing it had cached. */
  readonly disconnectedAtMs: number
  readonly confirmed: boolean
}

/** With the time at which this console received it. */
export interface DatedReport extends GatewayReport {
  readonly atMs: number
}

/**
 * Records the reports that arrive together in one transaction. After a change every gateway reports within the same
 * moment: a transaction each would take all connections from changes, and more time than gateways wait.
 */
export function shareReports(
  record: (reports: readonly DatedReport[]) => Promise<void>,
  now: () => number,
): (report: GatewayReport) => Promise<void> {
  const share = shareBatches(async (reports: readonly DatedReport[]) => {
    for (const batch of splitIntoBatches(reports)) await record(batch)
  })
  return report => share([{ ...report, atMs: now() }])
}

/** Several reports of one gateway stay in their order, each in another batch. */
function splitIntoBatches(reports: readonly DatedReport[]): DatedReport[][] {
  const batches: DatedReport[][] = []
  let batch: DatedReport[] = []
  let ids = new Set<string>()
  let confirmations = 0
  for (const report of reports) {
    confirmations += report.confirmed.length
    const isFull = batch.length === MAX_GATEWAYS || confirmations > MAX_CONFIRMATIONS
    if (batch.length === 0 || isFull || ids.has(report.id)) {
      batch = []
      ids = new Set()
      confirmations = report.confirmed.length
      batches.push(batch)
    }
    batch.push(report)
    ids.add(report.id)
  }
  return batches
}

/** @param reports of different gateways: one statement cannot change a row twice */
async function recordGateways(
  tx: Transaction<Tables>,
  reports: readonly DatedReport[],
  dialect: Dialect,
): Promise<void> {
  // If the machine fails, the gateways report again within seconds.
  if (dialect === 'postgres') await sql`set local synchronous_commit = off`.execute(tx)
  // Another console may write the same rows: in one order, neither waits for the other forever.
  const ordered = reports.toSorted((a, b) => (a.id < b.id ? -1 : 1))
  const leaving = ordered.filter(({ isLeaving }) => isLeaving).map(({ id }) => id)
  const staying = ordered.filter(({ isLeaving }) => !isLeaving)
  if (leaving.length > 0) await tx.deleteFrom('gateways').where('id', 'in', leaving).execute()
  for (const isConnected of [true, false]) {
    await upsertGateways(
      tx,
      staying.filter(report => report.isConnected === isConnected),
      isConnected,
    )
  }
  await insertConfirmations(tx, staying, dialect)
}

async function upsertGateways(
  tx: Transaction<Tables>,
  reports: readonly DatedReport[],
  isConnected: boolean,
): Promise<void> {
  if (reports.length === 0) return
  // A new gateway has nothing cached, which is as safe as being disconnected.
  const rows = reports.map(({ id, name, region, atMs }) => ({
    id,
    name,
    region,
    seen_at_ms: atMs,
    disconnected_at_ms: atMs,
  }))
  await tx
    .insertInto('gateways')
    .values(rows)
    .onConflict(conflict =>
      conflict.column('id').doUpdateSet(({ ref }) => ({
        name: ref('excluded.name'),
        region: ref('excluded.region'),
        seen_at_ms: ref('excluded.seen_at_ms'),
        ...(isConnected ? {} : { disconnected_at_ms: ref('excluded.disconnected_at_ms') }),
      })),
    )
    .execute()
}

async function insertConfirmations(
  tx: Transaction<Tables>,
  reports: readonly DatedReport[],
  dialect: Dialect,
): Promise<void> {
  const rows = reports.flatMap(({ id, atMs, confirmed }) =>
    confirmed.map(change => ({ ...change, id, atMs })),
  )
  for (let from = 0; from < rows.length; from += ROWS_AT_ONCE) {
    const some = rows.slice(from, from + ROWS_AT_ONCE)
    const columns = [
      { values: some.map(({ digest }) => digest), type: 'text' },
      { values: some.map(({ version }) => version), type: 'integer' },
      { values: some.map(({ id }) => id), type: 'text' },
      { values: some.map(({ atMs }) => atMs), type: 'bigint' },
    ] as const
    await sql`
      insert into confirmations (digest, version, gateway_id, at_ms)
      select c0, c1, c2, c3 from ${rowsFrom(columns, dialect)} where true
      order by c0, c1, c2 on conflict do nothing`.execute(tx)
  }
}

async function countGateways(database: Kysely<Tables>, sinceMs: number): Promise<number> {
  const { count } = await database
    .selectFrom('gateways')
    .where('seen_at_ms', '>=', sinceMs)
    .select(({ fn }) => fn.countAll().as('count'))
    .executeTakeFirstOrThrow()
  return Number(count)
}

interface KeyVersion {
  readonly digest: string
  readonly version: number
}

/**
 * Which gateways have applied each of these versions. A gateway that confirmed a later version has applied the earlier ones.
 * @returns the statuses for one of the versions
 */
async function readGatewayStatuses(
  database: Kysely<Tables>,
  versions: readonly KeyVersion[],
  dialect: Dialect,
): Promise<(version: KeyVersion) => GatewayStatus[]> {
  const gateways = await database.selectFrom('gateways').selectAll().orderBy('name').execute()
  const confirmations = await (dialect === 'postgres' ? searchConfirmations : selectConfirmations)(
    database,
    versions,
  )
  const newest = new Map(confirmations.map(row => [`${row.digest} ${row.gateway_id}`, row.version]))
  return ({ digest, version }) =>
    gateways.map(({ id, name, region, seen_at_ms, disconnected_at_ms }) => ({
      name,
      region,
      seenAtMs: seen_at_ms,
      disconnectedAtMs: disconnected_at_ms,
      confirmed: (newest.get(`${digest} ${id}`) ?? 0) >= version,
    }))
}

interface NewestConfirmation {
  readonly digest: string
  readonly gateway_id: string
  readonly version: number
}

function selectConfirmations(
  database: Kysely<Tables>,
  versions: readonly KeyVersion[],
): Promise<NewestConfirmation[]> {
  return database
    .selectFrom('confirmations')
    .select(({ fn }) => ['digest', 'gateway_id', fn.max('version').as('version')])
    .where(({ eb, or }) =>
      or(versions.map(({ digest, version }) => eb('digest', '=', digest).and('version', '>=', version))),
    )
    .groupBy(['digest', 'gateway_id'])
    .execute()
}

/** One search of the index for each version: a join would read the whole table, and a condition for each takes long to plan. */
async function searchConfirmations(
  database: Kysely<Tables>,
  versions: readonly KeyVersion[],
): Promise<NewestConfirmation[]> {
  const { rows } = await sql<NewestConfirmation>`
    select wanted.digest, newest.gateway_id, newest.version
    from unnest(${versions.map(({ digest }) => digest)}::text[], ${versions.map(({ version }) => version)}::integer[])
      as wanted (digest, version),
      lateral (
        select gateway_id, max(version) as version from confirmations
        where confirmations.digest = wanted.digest and confirmations.version >= wanted.version
        group by gateway_id) as newest`.execute(database)
  return rows
}

/** @returns whether there may be more */
async function purgeConfirmations(tx: Transaction<Tables>, nowMs: number): Promise<boolean> {
  const before = nowMs - CONFIRMATIONS_KEPT_MS
  await tx.deleteFrom('gateways').where('seen_at_ms', '<', before).execute()
  const { rows } = await sql`
    delete from confirmations where (digest, version, gateway_id) in (
      select digest, version, gateway_id from confirmations where at_ms < ${before} limit ${PURGED_AT_ONCE})
    returning version`.execute(tx)
  return rows.length === PURGED_AT_ONCE
}
