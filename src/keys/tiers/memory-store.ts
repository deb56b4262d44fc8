import { LRUCache } from 'lru-cache'
import { atMost } from '../../domain/bounded.ts'
import type { KeyGrant } from '../../domain/key/key-record.ts'
import {
  type CounterHandle,
  handlesBy,
  type Metrics,
  REMOVAL_CAUSES,
} from '../../observability/metrics/metrics.ts'
import type { MemoryEntry } from './trust.ts'

/** The effect of a change on memory; `current`: memory held that version already, or a later one. */
export type EvictionResult = 'evicted' | 'current' | 'unknown_key'

/** How and when the entry was verified. */
type Verification = Pick<MemoryEntry, 'verifiedAtMs' | 'epoch' | 'keyServiceSkipped'>

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
    this.#absent = new LRUCache(atMost(maxAbsent))
    this.#removals = handlesBy(REMOVAL_CAUSES, cause => metrics.cacheRemovals.handle({ cause }))
    this.#records = new ShardedCache(maxEntries, () => this.#removals.size.inc())
    metrics.cacheCapacity.set(maxEntries)
    metrics.cacheEntries.onCollect(gauge => gauge.set(this.#records.size))
  }

  get(digest: string): MemoryEntry | undefined {
    return this.#records.shard(digest).get(digest) ?? this.#absent.get(digest)
  }

  /** Does not count as a use for the order of eviction. */
  peek(digest: string): MemoryEntry | undefined {
    return this.#records.shard(digest).peek(digest) ?? this.#absent.peek(digest)
  }

  remember(digest: string, grant: KeyGrant, { verifiedAtMs, epoch, keyServiceSkipped }: Verification): void {
    this.#absent.delete(digest)
    const shared = { ...grant, scopes: this.#sharedList(grant.scopes) }
    const jitterPercent = Math.round(this.#random() * 100)
    const record = { grant: shared, verifiedAtMs, epoch, jitterPercent, keyServiceSkipped }
    this.#records.shard(digest).set(digest, record)
  }

  rememberAbsent(digest: string, verification: Verification): void {
    this.#remove(digest)
    this.#absent.set(digest, { grant: null, jitterPercent: 0, ...verification })
  }

  /** Evicts an older version of the record, or the entry that says that there is no such key. */
  evictOlder(digest: string, version: number): EvictionResult {
    const record = this.#records.shard(digest).peek(digest)
    if (record === undefined) return this.#absent.delete(digest) ? 'evicted' : 'unknown_key'
    if (record.grant.version >= version) return 'current'
    this.#remove(digest)
    return 'evicted'
  }

  clear(): void {
    this.#records.clear()
    this.#absent.clear()
  }

  #remove(digest: string): void {
    if (this.#records.shard(digest).delete(digest)) this.#removals.invalidated.inc()
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

/** A `Map` of this many entries grows within 2 ms. The one inside a cache of a million pauses the process for 60 ms. */
const MAX_ENTRIES_IN_SHARD = 16_384
/** Two hex digits of the digest select the shard. */
const MAX_SHARDS = 256

/** LRU caches, among which entries are divided by their digests. Each shard evicts its own least recently used entry. */
export class ShardedCache<Value extends object> {
  readonly #shards: readonly LRUCache<string, Value>[]

  /** @param onEvict called when an entry makes room for another */
  constructor(maxEntries: number, onEvict: () => void) {
    const count = Math.min(
      MAX_SHARDS,
      2 ** Math.ceil(Math.log2(Math.max(1, maxEntries / MAX_ENTRIES_IN_SHARD))),
    )
    const dispose = (_value: Value, _digest: string, reason: LRUCache.DisposeReason) => {
      if (reason === 'evict') onEvict()
    }
    const max = Math.ceil(maxEntries / count)
    this.#shards = Array.from({ length: count }, () => new LRUCache({ max, dispose }))
  }

  get size(): number {
    return this.#shards.reduce((total, shard) => total + shard.size, 0)
  }

  clear(): void {
    for (const shard of this.#shards) shard.clear()
  }

  /** @param digest 64 hex digits, spread evenly by SHA-256 */
  shard(digest: string): LRUCache<string, Value> {
    const index = (hexDigitAt(digest, 0) * 16 + hexDigitAt(digest, 1)) % this.#shards.length
    const shard = this.#shards[index]
    if (shard === undefined) throw new RangeError('A digest consists of hex digits')
    return shard
  }
}

/** `parseInt` of a part of the text would cost ten times as much. */
function hexDigitAt(digest: string, index: number): number {
  const code = digest.charCodeAt(index)
  return code <= 0x39 ? code - 0x30 : code - 0x57
}
