import { type Kysely, sql, type Transaction } from 'kysely'
import type { Config } from '../../config/schema/schema.ts'
import { withinDeadline } from '../../domain/clock.ts'
import {
  isFinal,
  type KeyGrant,
  type KeyRecord,
  keyState,
  MAX_VERSION,
  type StoredKey,
} from '../../domain/key/key-record.ts'
import { decodeRecord, KEPT_AFTER_EXPIRY_MS, RECORD_RANGE_END, recordKeyName } from '../../domain/wire.ts'
import { type ControlLogger, describeError } from '../../observability/control-logger.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import { type AnnouncingRedis, createRedisConnection } from '../../redis/announcing-connection.ts'
import { isOtherType } from '../../redis/answering.ts'
import { patientSettings } from '../../redis/options.ts'
import { importSecrets } from '../platform/capability.ts'
import { type ProgressDisplay, Refused } from '../platform/database/database.ts'
import { isLive, readKeyRow, toKeyRow } from '../platform/database/key-row.ts'
import { inBatches } from '../platform/database/query-parts.ts'
import type { KeyRow, Tables } from '../platform/database/tables.ts'
import { openReadOnly } from '../platform/open-database.ts'
import { countKeys } from './read-database.ts'

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
  { nowMs, progress }: { readonly nowMs: number; readonly progress: ProgressDisplay },
): Promise<Adopted> {
  const known = new KnownKeys(nowMs)
  const revoked: StoredKey[] = []
  let changed = 0
  for await (const { key, entries } of keysWithEntries(tx, seen, progress)) {
    const grant = newerGrant(key, entries)
    const adopted = { ...key, record: grant === null ? key.record : adoptedRecord(key.record, grant) }
    const byReplaced = entries.some(entry => entry.isOfReplaced === true && entry.grant === grant)
    known.add(
      byReplaced && hasEnded(adopted.record, nowMs) ? adopted : key,
      entries.filter(({ isOfReplaced }) => isOfReplaced !== true),
    )
    if (grant === null) continue
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
  progress: ProgressDisplay,
): AsyncGenerator<{ readonly key: StoredKey; readonly entries: readonly SeenEntry[] }> {
  const count = await countKeys(database)
  let done = 0
  const readAfter = (last: KeyRow | null) =>
    database
      .selectFrom('keys')
      .selectAll()
      .where('id', '>', last?.id ?? '')
      .orderBy('id')
      .limit(KEYS_AT_ONCE)
      .execute()
  for await (const rows of inBatches(KEYS_AT_ONCE, readAfter)) {
    const found = await seen.read(rows.map(({ digest }) => digest))
    for (const key of rows.map(readKeyRow)) yield { key, entries: found.get(key.digest) ?? [] }
    done += rows.length
    progress.show(done, count, 'keys compared with Redis')
  }
}

/**
 * All that a record on the wire says about an existing key and that can change. One that is so far ahead may be of an earlier backup,
 * which was restored since: it lifts no restriction, and none gives back what a key has lost for good.
 */
function adoptedRecord(record: KeyRecord, grant: KeyGrant): KeyRecord {
  const { id, workspaceId, scopes, hint, ...changeable } = grant
  const { version, suspendedAtMs, allowedCidrs } = changeable
  const expiresAtMs = Math.min(record.expiresAtMs, grant.expiresAtMs)
  const revokedAtMs = record.revokedAtMs ?? grant.revokedAtMs
  // A revoked record names no restriction.
  if (revokedAtMs !== null) return { ...record, expiresAtMs, revokedAtMs, version }
  const adopted = { ...record, ...changeable, expiresAtMs }
  if (version - record.version < VERSIONS_AHEAD / 2) return adopted
  return {
    ...adopted,
    suspendedAtMs: suspendedAtMs ?? record.suspendedAtMs,
    allowedCidrs: allowedCidrs.length === 0 ? record.allowedCidrs : allowedCidrs,
  }
}

async function adopt(tx: Transaction<Tables>, key: StoredKey, nowMs: number): Promise<void> {
  const { id, ...columns } = toKeyRow(key, nowMs)
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
  const keptSinceMs = nowMs - KEPT_AFTER_EXPIRY_MS
  await sql`insert into outbox (region, digest, version, at_ms)
    select regions.name, digest, version, ${nowMs} from regions cross join keys
    where expires_at_ms > ${keptSinceMs}`.execute(tx)
}

const MAX_NAMED = 10

/** What the Redis of one region holds about a key. */
interface SeenEntry {
  /** Null if the settings name no regions. */
  readonly region: string | null
  /** Null without a genuine record. */
  readonly grant: KeyGrant | null
  /** There is a record, and none of the given secrets signed it. */
  readonly isUnverified: boolean
  /** It is of the database that is replaced, and Redis may lack it. */
  readonly isOfReplaced?: true
}

/** Records that gateways may have seen after the backup. */
export interface SeenRecords {
  /** An entry of each region, by digest. */
  read(digests: readonly string[]): Promise<ReadonlyMap<string, readonly SeenEntry[]>>
}

/** Also what Redis may lack, by the database that is replaced: changes in its outbox, and keys that have ended. */
export interface ReplacedRecords extends SeenRecords {
  /** Why that database could not be read: what waited in it is lost. Null if it was. */
  unreadBecause(): string | null
  close(): Promise<void>
}

/** Opens the replaced database at the first read, once for all. Close it after use. */
export function withReplaced(seen: SeenRecords, replacedUrl: string, nowMs: number): ReplacedRecords {
  let trouble: string | null = null
  let opened: Promise<Kysely<Tables>> | null = null
  const readReplaced = async (digests: readonly string[]): Promise<readonly KeyRow[]> => {
    if (trouble !== null) return []
    try {
      opened ??= openReadOnly(replacedUrl)
      const database = await opened
      return await database
        .selectFrom('keys')
        .selectAll()
        .where('digest', 'in', digests)
        .where(({ eb, or }) =>
          // Redis keeps a record for a day after its key has expired, which a rotation can bring about.
          or([
            sql<boolean>`not (${isLive(nowMs)})`,
            eb('digest', 'in', database.selectFrom('outbox').select('digest')),
          ]),
        )
        .execute()
    } catch (error) {
      // It may be damaged, which is why it is replaced.
      trouble = describeError(error)
      return []
    }
  }
  return {
    unreadBecause: () => trouble,
    close: async () => (await opened?.catch(() => null))?.destroy(),
    async read(digests) {
      const found = new Map(await seen.read(digests))
      for (const row of await readReplaced(digests)) {
        // As a record on the wire: what else was changed is lost, as with changes that were announced.
        const { name, description, createdAtMs, createdBy, rotatedFrom, replacedBy, ...grant } =
          readKeyRow(row).record
        const replaced: SeenEntry = { region: null, grant, isUnverified: false, isOfReplaced: true }
        found.set(row.digest, [...(found.get(row.digest) ?? []), replaced])
      }
      return found
    },
  }
}

/** How much Redis knows about the keys of a database. */
export interface Known {
  /** Keys that are neither revoked nor expired in the database: only these can work again. */
  readonly live: number
  /** Whether Redis holds a genuine record of any key of the database. */
  readonly hasRecords: boolean
  /** How many of the live keys some region has no genuine record of that is as new as the database. */
  readonly unknown: number
  /** The ids of the first of them. */
  readonly named: readonly string[]
  /** Names of those regions; empty if the settings name none. */
  readonly regions: readonly string[]
  /** How many of the live keys have a record that none of the given secrets signed. */
  readonly unverified: number
}

/** Redis has the latest state of a key, or it is unknown: a missing record never means that nothing changed. */
export class KnownKeys {
  readonly #nowMs: number
  readonly #named: string[] = []
  readonly #regions = new Set<string>()
  #live = 0
  #hasRecords = false
  #unknown = 0
  #unverified = 0

  constructor(nowMs: number) {
    this.#nowMs = nowMs
  }

  add({ record }: StoredKey, entries: readonly SeenEntry[]): void {
    const isOfKey = ({ grant }: SeenEntry) => grant !== null && grant.id === record.id
    this.#hasRecords ||= entries.some(isOfKey)
    if (hasEnded(record, this.#nowMs)) return
    this.#live += 1
    const lacking = entries.filter(entry => !isOfKey(entry) || (entry.grant?.version ?? 0) < record.version)
    if (entries.some(({ isUnverified }) => isUnverified)) this.#unverified += 1
    if (entries.length > 0 && lacking.length === 0) return
    this.#unknown += 1
    if (this.#named.length < MAX_NAMED) this.#named.push(record.id)
    for (const { region } of lacking) if (region !== null) this.#regions.add(region)
  }

  result(): Known {
    return {
      live: this.#live,
      hasRecords: this.#hasRecords,
      unknown: this.#unknown,
      named: this.#named,
      regions: [...this.#regions].toSorted(),
      unverified: this.#unverified,
    }
  }
}

function hasEnded(record: KeyRecord, nowMs: number): boolean {
  return isFinal(keyState(record, nowMs))
}

/** @returns the newest record of the key, if it is newer than the database; else null */
export function newerGrant({ record }: StoredKey, entries: readonly SeenEntry[]): KeyGrant | null {
  const newer = entries.flatMap(({ grant }) =>
    grant !== null && grant.id === record.id && grant.version > record.version ? [grant] : [],
  )
  return newer.toSorted((a, b) => b.version - a.version)[0] ?? null
}

/** @throws Refused if keys that were revoked after the backup could work again */
export function requireKnown(known: Known, allowsMissing: boolean): void {
  requireRecords(known)
  if (known.unknown === 0 || allowsMissing) return
  throw new Refused(
    `Redis ${describeRegions(known)}has no usable record of ${known.unknown} of ${known.live} keys in use (${nameUnknown(known)})${describeUnverified(known)}. ` +
      'Those that were revoked since the backup would work again, so nothing was changed. ' +
      `${describeRemedy(known)}, or add --allow-missing to restore these keys as the backup has them`,
  )
}

/** @throws Refused if Redis holds no record of a database that has keys in use */
export function requireRecords(known: Known): void {
  if (known.live > 0 && !known.hasRecords) throw new Refused(noRecordsText(known))
}

function noRecordsText(known: Known): string {
  const keys = known.live === 1 ? 'the key in use' : `any of the ${known.live} keys in use`
  return (
    `Redis has no usable record of ${keys}${describeUnverified(known)}: it is the Redis of another installation, or it lost its data. ` +
    'Keys that were revoked since the backup would work again, so nothing was changed. ' +
    `${describeRemedy(known)}, or add --without-redis, and revoke these keys again before gateways reach the console`
  )
}

function describeUnverified({ unverified }: Known): string {
  return unverified === 0 ? '' : `; ${unverified} have one that none of keys.signingSecrets signed`
}

function describeRemedy({ unverified }: Known): string {
  return unverified === 0
    ? 'Set redis.url (or regions) as for the console'
    : 'Set keys.signingSecrets to all secrets that the console has used since'
}

function describeRegions({ regions }: Known): string {
  return regions.length === 0 ? '' : `of ${regions.join(', ')} `
}

/** `key_a, key_b and 3 more` */
export function nameUnknown({ unknown, named }: Pick<Known, 'unknown' | 'named'>): string {
  const others = unknown - named.length
  return others > 0 ? `${named.join(', ')} and ${others} more` : named.join(', ')
}

const CONNECT_DEADLINE_MS = 10_000
/** Read concurrently. */
const AT_ONCE = 64

export class RedisUnreachable extends Error {}

/**
 * What the configured Redis, or those of all regions, hold about keys, with the rights of a console.
 * @throws RedisUnreachable
 */
export async function withSeenRecords<Result>(
  parts: { readonly config: Config; readonly metrics: Metrics; readonly logger: ControlLogger },
  use: (seen: SeenRecords) => Promise<Result>,
): Promise<Result> {
  const { recordKeys } = importSecrets(parts.config)
  const { regions, redis } = parts.config
  const places = regions.length > 0 ? regions : [{ name: null, redis }]
  const connections = places.map(({ name, redis: config }) => ({
    region: name,
    connection: createRedisConnection({ ...parts, config: patientSettings(config), onUp: () => {} }),
  }))
  const readFrom = async ({ region, connection }: RegionConnection, digest: string): Promise<SeenEntry> => {
    const bytes = await connection
      .getrangeBuffer(recordKeyName(digest), 0, RECORD_RANGE_END)
      .catch((error: unknown) => noRecord(error, region))
    const record = decodeRecord(bytes.toString(), digest, recordKeys)
    if (record.ok) return { region, grant: record.grant, isUnverified: false }
    return { region, grant: null, isUnverified: record.why !== 'malformed' }
  }
  const readAll = async (digest: string) =>
    [digest, await Promise.all(connections.map(connection => readFrom(connection, digest)))] as const
  try {
    await Promise.all(connections.map(untilReady))
    return await use({
      async read(digests) {
        const found = new Map<string, readonly SeenEntry[]>()
        for (let from = 0; from < digests.length; from += AT_ONCE) {
          const some = await Promise.all(digests.slice(from, from + AT_ONCE).map(readAll))
          for (const [digest, entries] of some) found.set(digest, entries)
        }
        return found
      },
    })
  } finally {
    for (const { connection } of connections) connection.disconnect()
  }
}

interface RegionConnection {
  /** Null if the settings name no regions. */
  readonly region: string | null
  readonly connection: AnnouncingRedis
}

async function untilReady({ region, connection }: RegionConnection): Promise<void> {
  const ready = Promise.withResolvers<void>()
  connection.on('ready', ready.resolve)
  // The connection reports failures by its own events, and reconnects.
  connection.connect().catch(() => {})
  await withinDeadline(ready.promise, CONNECT_DEADLINE_MS, () => {
    throw new RedisUnreachable(`No answer from ${redisName(region)} within ${CONNECT_DEADLINE_MS / 1000} s`)
  })
}

function redisName(region: string | null): string {
  return region === null ? 'the configured Redis' : `the Redis of region ${region}`
}

/** @throws RedisUnreachable unless the entry is not ours: what Redis holds is unknown then */
function noRecord(error: unknown, region: string | null): Buffer {
  if (isOtherType(error)) return Buffer.alloc(0)
  throw new RedisUnreachable(`A record cannot be read from ${redisName(region)}: ${describeError(error)}`)
}
