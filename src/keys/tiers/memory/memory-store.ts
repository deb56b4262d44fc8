import type { KeyGrant } from '../../../domain/key-record.ts'
import type { Lookup } from '../../../domain/lookup.ts'
import {
  type CounterHandle,
  handlesBy,
  type Metrics,
  REMOVAL_CAUSES,
} from '../../../observability/metrics.ts'
import { GRANT_BYTES, GRANT_NUMBERS, PackedGrants } from './packed-grants.ts'
import { NO_ROW, PackedRows } from './packed-rows.ts'

/** Now, and what memory is worth now. */
export interface Moment {
  /** Monotonic, ms. */
  readonly nowMs: number
  readonly hearing: boolean
  readonly epoch: number
}

/** What a change meant to memory; `current`: it held a record of that version, or of a later one. */
export type EvictionResult = 'evicted' | 'current' | 'unknown_key'

export interface Verified {
  /** When the look-up began that verified it: monotonic, ms. */
  readonly verifiedAtMs: number
  readonly epoch: number
}

export interface MemorySettings {
  readonly maxEntries: number
  readonly ttlMs: number
  readonly absentTtlMs: number
}

/** How long, at most, a replica that hears no changes trusts what it was told. */
export const DEAF_TRUST_MS = 1_000
const MAX_ABSENT = 10_000
/** Of the time to live, so that a hot key is not asked for by every replica at one moment. */
const TTL_SPREAD = 0.1
/** Of the trust while deaf: keys that were verified in one tick spread over the next seconds, not all at once in each. */
const DEAF_SPREAD = 0.3

/** Columns of a record, after those of its grant. The time to live is already spread in the last two. */
const VERIFIED_AT = GRANT_NUMBERS
const EPOCH = GRANT_NUMBERS + 1
const FRESH_UNTIL = GRANT_NUMBERS + 2
/** The same, for while nothing is heard. */
const DEAF_UNTIL = GRANT_NUMBERS + 3
const RECORD_NUMBERS = GRANT_NUMBERS + 4
/** Columns of "no such key". */
const ABSENT_SINCE = 0
const ABSENT_EPOCH = 1
const ABSENT_SHAPE = { maxRows: MAX_ABSENT, numbers: 2, bytes: 0 }

/** Records and refusals that were verified a while ago. Being read never lengthens a life. */
export class MemoryStore {
  readonly #settings: MemorySettings
  readonly #random: () => number
  readonly #removals: Readonly<Record<(typeof REMOVAL_CAUSES)[number], CounterHandle>>
  readonly #records: PackedRows
  readonly #grants: PackedGrants
  readonly #absent = new PackedRows(ABSENT_SHAPE)

  constructor(settings: MemorySettings, deps: { metrics: Metrics; random?: () => number }) {
    const { metrics } = deps
    this.#settings = settings
    this.#random = deps.random ?? Math.random
    this.#removals = handlesBy(REMOVAL_CAUSES, cause => metrics.cacheRemovals.handle({ cause }))
    const shape = { maxRows: settings.maxEntries, numbers: RECORD_NUMBERS, bytes: GRANT_BYTES }
    this.#records = new PackedRows(shape, row => this.#leaves(row, 'size'))
    this.#grants = new PackedGrants(this.#records)
    metrics.cacheCapacity.set(settings.maxEntries)
    metrics.cacheEntries.onCollect(gauge => gauge.set(this.#records.size))
  }

  /** What may be used without asking anybody. */
  fresh(digest: string, moment: Moment): Lookup | null {
    const row = this.#records.find(digest)
    if (row === NO_ROW) return this.#isAbsent(digest, moment) ? { kind: 'absent', tier: 'memory' } : null
    this.#records.touch(row)
    return this.#isFresh(row, moment) ? this.#found(row) : null
  }

  /**
   * What may be used only because nobody answers, whatever its epoch: no change of it was heard since.
   * @param maxAgeMs since it was last verified; 0 allows none
   */
  stale(digest: string, nowMs: number, maxAgeMs: number): Lookup | null {
    const row = this.#records.find(digest)
    if (row === NO_ROW || maxAgeMs <= 0) return null
    this.#records.touch(row)
    if (nowMs - this.#records.number(row, VERIFIED_AT) <= maxAgeMs) return this.#found(row)
    this.#remove(row, 'ttl')
    return null
  }

  /**
   * The version held, fresh or not: a floor for what others may answer.
   * @param verifiedSinceMs what was last verified before that is no floor
   */
  versionOf(digest: string, verifiedSinceMs = Number.NEGATIVE_INFINITY): number {
    const row = this.#records.find(digest)
    if (row === NO_ROW || this.#records.number(row, VERIFIED_AT) < verifiedSinceMs) return 0
    return this.#grants.version(row)
  }

  /** @param verified when the look-up began, and in which epoch */
  remember(digest: string, grant: KeyGrant, { verifiedAtMs, epoch }: Verified): void {
    const share = this.#random()
    this.#forgetAbsent(digest)
    const records = this.#records
    const row = records.claim(digest)
    this.#grants.write(row, grant)
    records.setNumber(row, VERIFIED_AT, verifiedAtMs)
    records.setNumber(row, EPOCH, epoch)
    records.setNumber(row, FRESH_UNTIL, verifiedAtMs + this.#settings.ttlMs * (1 - TTL_SPREAD * share))
    records.setNumber(row, DEAF_UNTIL, verifiedAtMs + DEAF_TRUST_MS * (1 - DEAF_SPREAD * share))
  }

  rememberAbsent(digest: string, { verifiedAtMs, epoch }: Verified): void {
    this.#forgetRecord(digest)
    const row = this.#absent.claim(digest)
    this.#absent.setNumber(row, ABSENT_SINCE, verifiedAtMs)
    this.#absent.setNumber(row, ABSENT_EPOCH, epoch)
  }

  /** Whether a record is held, or that there is none. */
  holds(digest: string): boolean {
    return this.#records.find(digest) !== NO_ROW || this.#absent.find(digest) !== NO_ROW
  }

  /** Forgets a record of an older version, and that there is none. */
  evictOlder(digest: string, version: number): EvictionResult {
    const row = this.#records.find(digest)
    if (row === NO_ROW) return this.#forgetAbsent(digest) ? 'evicted' : 'unknown_key'
    if (this.#grants.version(row) >= version) return 'current'
    this.#remove(row, 'invalidated')
    return 'evicted'
  }

  flush(): void {
    this.#removals.flush.inc(this.#records.size)
    this.#records.clear()
    this.#grants.clear()
    this.#absent.clear()
  }

  #found(row: number): Lookup {
    return { kind: 'found', grant: this.#grants.read(row), tier: 'memory' }
  }

  #isFresh(row: number, { nowMs, hearing, epoch }: Moment): boolean {
    const records = this.#records
    if (records.number(row, EPOCH) !== epoch || nowMs >= records.number(row, FRESH_UNTIL)) return false
    return hearing || nowMs <= records.number(row, DEAF_UNTIL)
  }

  #isAbsent(digest: string, { nowMs, hearing, epoch }: Moment): boolean {
    const row = this.#absent.find(digest)
    if (row === NO_ROW) return false
    this.#absent.touch(row)
    if (this.#absent.number(row, ABSENT_EPOCH) !== epoch) return false
    const ageMs = nowMs - this.#absent.number(row, ABSENT_SINCE)
    return ageMs < this.#settings.absentTtlMs && (hearing || ageMs <= DEAF_TRUST_MS)
  }

  #forgetAbsent(digest: string): boolean {
    const row = this.#absent.find(digest)
    if (row === NO_ROW) return false
    this.#absent.remove(row)
    return true
  }

  #forgetRecord(digest: string): void {
    const row = this.#records.find(digest)
    if (row !== NO_ROW) this.#remove(row, 'invalidated')
  }

  #remove(row: number, cause: (typeof REMOVAL_CAUSES)[number]): void {
    this.#leaves(row, cause)
    this.#records.remove(row)
  }

  #leaves(row: number, cause: (typeof REMOVAL_CAUSES)[number]): void {
    this.#grants.forget(row)
    this.#removals[cause].inc()
  }
}
