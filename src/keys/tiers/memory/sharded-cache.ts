import { LRUCache } from 'lru-cache'

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

  /** @param digest 64 hex digits, spread evenly by SHA-256 */
  shardOf(digest: string): LRUCache<string, Value> {
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
