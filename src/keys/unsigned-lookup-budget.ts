import { LRUCache } from 'lru-cache'
import { atMost } from '../domain/bounded.ts'
import { findClientNetwork } from '../domain/form/address.ts'
import { TokenBucket } from '../domain/rate-limit.ts'

/** Clients that are remembered. One that is forgotten starts with a full budget; the total still limits it. */
const MAX_CLIENTS = 10_000

/**
 * How many lookups of unknown keys without a MAC a gateway makes. Only a lookup that finds no key uses the budget up, so a
 * gateway that starts with many clients verifies all of their keys.
 */
export class UnsignedLookupBudget {
  readonly #total: TokenBucket
  readonly #perAddress: number
  readonly #byClient = new LRUCache<string, TokenBucket>(atMost(MAX_CLIENTS))

  constructor({ perSecond, perAddress }: { perSecond: number; perAddress: number }) {
    this.#total = new TokenBucket({ perSecond, burst: perSecond })
    this.#perAddress = perAddress
  }

  /** @param nowMs monotonic. @returns whether the lookup may begin */
  take(address: string, nowMs: number): boolean {
    const own = this.#bucket(address)
    if (!own.take(nowMs)) return false
    if (this.#total.take(nowMs)) return true
    own.putBack()
    return false
  }

  /** For a lookup that found a key. */
  putBack(address: string): void {
    this.#bucket(address).putBack()
    this.#total.putBack()
  }

  #bucket(address: string): TokenBucket {
    const client = findClientNetwork(address)
    let bucket = this.#byClient.get(client)
    if (bucket === undefined) {
      bucket = new TokenBucket({ perSecond: this.#perAddress, burst: this.#perAddress })
      this.#byClient.set(client, bucket)
    }
    return bucket
  }
}
