import { LRUCache } from 'lru-cache'
import type { KeyGrant } from '../../../domain/key/key-record.ts'
import {
  type CounterHandle,
  handlesBy,
  type Metrics,
  REMOVAL_CAUSES,
} from '../../../observability/metrics/metrics.ts'
import type { MemoryEntry } from '../../trust.ts'
import { ShardedCache } from './sharded-cache.ts'

/** The effect of a change on memory; `current`: memory held that version already, or a later one. */
export type EvictionResult = 'evicted' | 'current' | 'unknown_key'

/** How and when the entry was verified. */
export type Verification = Pick<MemoryEntry, 'verifiedAtMs' | 'epoch' | 'keyServiceSkipped'>

interface HeldRecord extends MemoryEntry {
  readonly grant: KeyGrant
}

const MAX_ABSENT = 10_000
/** Distinct lists of scopes that grants share. Beyond that, each grant has a list of its own. */
const MAX_SCOPE_LISTS = 1_000

/** Records, and digests without a key, as last verified. A read never extends the life of an entry. */
export class MemoryStore {
  readonly #random: () => number
  readonly #removals: Readonly<Record<(typeof REMOVAL_CAUSES)[number], CounterHandle>>
  readonly #records: ShardedCache<HeldRecord>
  /** Separate, so that digests without a key evict no record. */
  readonly #absent: LRUCache<string, MemoryEntry>
  readonly #scopeLists = new Map<string, readonly string[]>()

  constructor(maxEntries: number, deps: { metrics: Metrics; random?: () => number; maxAbsent?: number }) {
    const { metrics, random = Math.random, maxAbsent = MAX_ABSENT } = deps
    this.#random = random
    this.#absent = new LRUCache({ max: maxAbsent })
    this.#removals = handlesBy(REMOVAL_CAUSES, cause => metrics.cacheRemovals.handle({ cause }))
    this.#records = new ShardedCache(maxEntries, () => this.#removals.size.inc())
    metrics.cacheCapacity.set(maxEntries)
    metrics.cacheEntries.onCollect(gauge => gauge.set(this.#records.size))
  }

  get(digest: string): MemoryEntry | undefined {
    return this.#records.shardOf(digest).get(digest) ?? this.#absent.get(digest)
  }

  /** Does not count as a use for the order of eviction. */
  peek(digest: string): MemoryEntry | undefined {
    return this.#records.shardOf(digest).peek(digest) ?? this.#absent.peek(digest)
  }

  remember(digest: string, grant: KeyGrant, { verifiedAtMs, epoch, keyServiceSkipped }: Verification): void {
    this.#absent.delete(digest)
    const shared = { ...grant, scopes: this.#sharedList(grant.scopes) }
    const record = { grant: shared, verifiedAtMs, epoch, jitter: this.#random(), keyServiceSkipped }
    this.#records.shardOf(digest).set(digest, record)
  }

  rememberAbsent(digest: string, verification: Verification): void {
    this.#remove(digest)
    this.#absent.set(digest, { grant: null, jitter: 0, ...verification })
  }

  /** Evicts an older version of the record, or the entry that says that there is no such key. */
  evictOlder(digest: string, version: number): EvictionResult {
    const record = this.#records.shardOf(digest).peek(digest)
    if (record === undefined) return this.#absent.delete(digest) ? 'evicted' : 'unknown_key'
    if (record.grant.version >= version) return 'current'
    this.#remove(digest)
    return 'evicted'
  }

  #remove(digest: string): void {
    if (this.#records.shardOf(digest).delete(digest)) this.#removals.invalidated.inc()
  }

  /** Most keys have one of a few lists of scopes: a separate list for each would make records a quarter larger. */
  #sharedList(scopes: readonly string[]): readonly string[] {
    const name = scopes.join(' ')
    const known = this.#scopeLists.get(name)
    if (known !== undefined) return known
    if (this.#scopeLists.size < MAX_SCOPE_LISTS) this.#scopeLists.set(name, scopes)
    return scopes
  }
}
