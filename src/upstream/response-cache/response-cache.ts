import { LRUCache } from 'lru-cache'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import type { CachedResponse } from './cached-response.ts'

/** Largest share of the capacity that one workspace may use. */
const WORKSPACE_SHARE = 1 / 4
/** Estimated memory of a workspace's list, without its entries. */
const WORKSPACE_BYTES = 2000

/**
 * Cached responses by workspace, then by cache key, so that a lookup for one workspace cannot find another's. Bounded in
 * bytes: the least recently used entry of the least recently used workspace goes first.
 */
export class ResponseCache {
  /** Increases with `clear()`, so that responses requested before it are not stored after it. */
  epoch = 0
  readonly #maxBytes: number
  readonly #workspaces: LRUCache<string, LRUCache<string, CachedResponse>>
  #bytes = 0

  constructor(maxBytes: number, metrics: Metrics) {
    this.#maxBytes = maxBytes
    this.#workspaces = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: () => WORKSPACE_BYTES,
      dispose: responses => responses.clear(),
    })
    metrics.responseCacheBytes.onCollect(gauge => gauge.set(this.bytes))
    metrics.responseCacheCapacity.set(maxBytes)
  }

  get bytes(): number {
    return this.#bytes + this.#workspaces.size * WORKSPACE_BYTES
  }

  find(workspaceId: string, key: string): CachedResponse | undefined {
    return this.#workspaces.get(workspaceId)?.get(key)
  }

  store(workspaceId: string, key: string, response: CachedResponse): void {
    const size = response.size + key.length
    if (size > this.#maxBytes * WORKSPACE_SHARE) {
      this.drop(workspaceId, key)
      return
    }
    const responses = this.#workspaces.get(workspaceId) ?? this.#addWorkspace(workspaceId)
    this.#bytes += size
    responses.set(key, response, { size })
    while (this.bytes > this.#maxBytes) this.#dropOldest()
  }

  drop(workspaceId: string, key: string): void {
    const responses = this.#workspaces.get(workspaceId)
    responses?.delete(key)
    if (responses?.size === 0) this.#workspaces.delete(workspaceId)
  }

  clear(): void {
    this.epoch++
    this.#workspaces.clear()
  }

  #addWorkspace(workspaceId: string): LRUCache<string, CachedResponse> {
    const responses = new LRUCache<string, CachedResponse>({
      maxSize: Math.floor(this.#maxBytes * WORKSPACE_SHARE),
      dispose: ({ size }, key) => {
        this.#bytes -= size + key.length
      },
    })
    this.#workspaces.set(workspaceId, responses)
    return responses
  }

  #dropOldest(): void {
    const { value: workspaceId } = this.#workspaces.rkeys().next()
    if (workspaceId === undefined) return
    const responses = this.#workspaces.peek(workspaceId)
    responses?.pop()
    if (responses?.size === 0) this.#workspaces.delete(workspaceId)
  }
}
