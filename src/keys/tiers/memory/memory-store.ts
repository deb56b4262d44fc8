import { LRUCache } from 'lru-cache'
import type { KeyGrant } from '../../../domain/key-record.ts'
import type { Lookup } from '../../../domain/lookup.ts'
import {
  type CounterHandle,
  handlesBy,
  type Metrics,
  REMOVAL_CAUSES,
} from '../../../observability/metrics.ts'
import { ShardedCache } from './sharded-cache.ts'

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

/** More lists of scopes than a configuration has reasons for; a grant with one beyond them keeps its own. */
const MAX_SCOPE_LISTS = 1_000

interface HeldRecord {
  readonly grant: KeyGrant
  readonly verifiedAtMs: number
  readonly epoch: number
  /** From 0 to 1: how much of the spread of its life this record gives up. */
  readonly spread: number
}

/** Records and refusals that were verified a while ago. Being read never lengthens a life. */
export class MemoryStore {
  readonly #settings: MemorySettings
  readonly #random: () => number
  readonly #removals: Readonly<Record<(typeof REMOVAL_CAUSES)[number], CounterHandle>>
  readonly #records: ShardedCache<HeldRecord>
  readonly #absent = new LRUCache<string, Verified>({ max: MAX_ABSENT })
  readonly #scopeLists = new Map<string, readonly string[]>()

  constructor(settings: MemorySettings, deps: { metrics: Metrics; random?: () => number }) {
    const { metrics } = deps
    this.#settings = settings
    this.#random = deps.random ?? Math.random
    this.#removals = handlesBy(REMOVAL_CAUSES, cause => metrics.cacheRemovals.handle({ cause }))
    this.#records = new ShardedCache(settings.maxEntries, () => this.#removals.size.inc())
    metrics.cacheCapacity.set(settings.maxEntries)
    metrics.cacheEntries.onCollect(gauge => gauge.set(this.#records.size))
  }

  /** What may be used without asking anybody. */
  fresh(digest: string, moment: Moment): Lookup | null {
    const record = this.#records.shardOf(digest).get(digest)
    if (record !== undefined) return this.#isFresh(record, moment) ? found(record) : null
    return this.#isAbsent(digest, moment) ? { kind: 'absent', tier: 'memory' } : null
  }

  /**
   * What may be used only because nobody answers, whatever its epoch: no change of it was heard since.
   * @param maxAgeMs since it was last verified; 0 allows none
   */
  stale(digest: string, nowMs: number, maxAgeMs: number): Lookup | null {
    const record = this.#records.shardOf(digest).get(digest)
    if (record === undefined || maxAgeMs <= 0) return null
    if (nowMs - record.verifiedAtMs <= maxAgeMs) return found(record)
    this.#remove(digest, 'ttl')
    return null
  }

  /**
   * The version held, fresh or not: a floor for what others may answer.
   * @param verifiedSinceMs what was last verified before that is no floor
   */
  versionOf(digest: string, verifiedSinceMs = Number.NEGATIVE_INFINITY): number {
    const record = this.#records.shardOf(digest).peek(digest)
    return record === undefined || record.verifiedAtMs < verifiedSinceMs ? 0 : record.grant.version
  }

  /** @param verified when the look-up began, and in which epoch */
  remember(digest: string, grant: KeyGrant, { verifiedAtMs, epoch }: Verified): void {
    this.#absent.delete(digest)
    const shared = { ...grant, scopes: this.#sharedList(grant.scopes) }
    this.#records.shardOf(digest).set(digest, { grant: shared, verifiedAtMs, epoch, spread: this.#random() })
  }

  rememberAbsent(digest: string, verified: Verified): void {
    this.#remove(digest, 'invalidated')
    this.#absent.set(digest, verified)
  }

  /** Whether a record is held, or that there is none. */
  holds(digest: string): boolean {
    return this.#records.shardOf(digest).has(digest) || this.#absent.has(digest)
  }

  /** Forgets a record of an older version, and that there is none. */
  evictOlder(digest: string, version: number): EvictionResult {
    const record = this.#records.shardOf(digest).peek(digest)
    if (record === undefined) return this.#absent.delete(digest) ? 'evicted' : 'unknown_key'
    if (record.grant.version >= version) return 'current'
    this.#remove(digest, 'invalidated')
    return 'evicted'
  }

  #isFresh({ verifiedAtMs, epoch, spread }: HeldRecord, moment: Moment): boolean {
    const ageMs = moment.nowMs - verifiedAtMs
    if (epoch !== moment.epoch || ageMs >= this.#settings.ttlMs * (1 - TTL_SPREAD * spread)) return false
    return moment.hearing || ageMs <= DEAF_TRUST_MS * (1 - DEAF_SPREAD * spread)
  }

  #isAbsent(digest: string, { nowMs, hearing, epoch }: Moment): boolean {
    const denial = this.#absent.get(digest)
    if (denial === undefined || denial.epoch !== epoch) return false
    const ageMs = nowMs - denial.verifiedAtMs
    return ageMs < this.#settings.absentTtlMs && (hearing || ageMs <= DEAF_TRUST_MS)
  }

  /** Most keys have one of a few lists of scopes: a list of its own would add a quarter to the size of a record. */
  #sharedList(scopes: readonly string[]): readonly string[] {
    const name = scopes.join(' ')
    const known = this.#scopeLists.get(name)
    if (known !== undefined) return known
    if (this.#scopeLists.size < MAX_SCOPE_LISTS) this.#scopeLists.set(name, scopes)
    return scopes
  }

  #remove(digest: string, cause: (typeof REMOVAL_CAUSES)[number]): void {
    if (this.#records.shardOf(digest).delete(digest)) this.#removals[cause].inc()
  }
}

function found({ grant }: HeldRecord): Lookup {
  return { kind: 'found', grant, tier: 'memory' }
}
