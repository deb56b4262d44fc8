import type { KeyGrant, StoredKey } from '../../domain/key/key-record.ts'
import { Refused } from '../platform/database/refused.ts'

const MAX_NAMED = 10

/** What the Redis of one region holds about a key. */
export interface SeenEntry {
  /** Null if the settings name no regions. */
  readonly region: string | null
  /** Null without a genuine record. */
  readonly grant: KeyGrant | null
  /** There is a record, and none of the given secrets signed it. */
  readonly isUnverified: boolean
}

/** Records that gateways may have seen after the backup. */
export interface SeenRecords {
  /** An entry of each region, by digest. */
  read(digests: readonly string[]): Promise<ReadonlyMap<string, readonly SeenEntry[]>>
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
    if (record.revokedAtMs !== null || record.expiresAtMs <= this.#nowMs) return
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
    `Redis ${placeOf(known)}has no usable record of ${known.unknown} of ${known.live} keys in use (${nameUnknown(known)})${causeOf(known)}. ` +
      'Those that were revoked since the backup would work again, so nothing was changed. ' +
      `${cureOf(known)}, or add --allow-missing to restore these keys as the backup has them`,
  )
}

/** @throws Refused if Redis holds no record of a database that has keys in use */
export function requireRecords(known: Known): void {
  if (known.live > 0 && !known.hasRecords) throw new Refused(noRecordsText(known))
}

function noRecordsText(known: Known): string {
  const keys = known.live === 1 ? 'the key in use' : `any of the ${known.live} keys in use`
  return (
    `Redis has no usable record of ${keys}${causeOf(known)}: it is the Redis of another installation, or it lost its data. ` +
    'Keys that were revoked since the backup would work again, so nothing was changed. ' +
    `${cureOf(known)}, or add --without-redis, and revoke these keys again before gateways reach the console`
  )
}

function causeOf({ unverified }: Known): string {
  return unverified === 0 ? '' : `; ${unverified} have one that none of keys.signingSecrets signed`
}

function cureOf({ unverified }: Known): string {
  return unverified === 0
    ? 'Set redis.url (or regions) as for the console'
    : 'Set keys.signingSecrets to all secrets that the console has used since'
}

function placeOf({ regions }: Known): string {
  return regions.length === 0 ? '' : `of ${regions.join(', ')} `
}

/** `key_a, key_b and 3 more` */
export function nameUnknown({ unknown, named }: Pick<Known, 'unknown' | 'named'>): string {
  const others = unknown - named.length
  return others > 0 ? `${named.join(', ')} and ${others} more` : named.join(', ')
}
