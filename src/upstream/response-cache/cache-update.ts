import type { Clock } from '../../domain/clock.ts'
import type { ByteString } from '../../http/byte-string.ts'
import type { ResponsePolicy, UpstreamHeaders } from '../response-policy.ts'
import { type CachedResponse, refreshedHeaders, toCachedResponse } from './cached-response.ts'
import { type Freshness, freshnessOf } from './freshness.ts'
import type { ResponseCache } from './response-cache.ts'

export interface CacheEntry {
  readonly workspaceId: string
  readonly key: string
  /** What is cached and has to be revalidated. */
  readonly stale: CachedResponse | undefined
}

/** What one response of the upstream changes in the cache. */
export class CacheUpdate {
  readonly #cache: ResponseCache
  readonly #clock: Clock
  readonly #entry: CacheEntry
  readonly #requestedAtMs: number
  readonly #epoch: number

  constructor(cache: ResponseCache, clock: Clock, entry: CacheEntry) {
    this.#cache = cache
    this.#clock = clock
    this.#entry = entry
    this.#requestedAtMs = clock.monotonicMs()
    this.#epoch = cache.epoch
  }

  /** @returns null where the response may not be stored; the entry is dropped then */
  freshnessOf(statusCode: number, headers: UpstreamHeaders): Freshness | null {
    const freshness = statusCode === 200 ? this.#freshnessOf(headers) : null
    // A failing upstream, or a client that has the response already, says nothing about the entry.
    if (freshness === null && statusCode < 500 && statusCode !== 304) this.#drop()
    return freshness
  }

  store(
    upstream: UpstreamHeaders,
    passing: Readonly<Record<string, string>>,
    body: Buffer | ByteString,
    freshness: Freshness,
  ): CachedResponse {
    const nowMs = this.#clock.monotonicMs()
    const requestedAtMs = this.#requestedAtMs
    const response = toCachedResponse({ upstream, passing, body, freshness, requestedAtMs, nowMs })
    const { workspaceId, key } = this.#entry
    // The response that was requested last is the newest, whichever arrives first.
    const hasNewer = (this.#cache.find(workspaceId, key)?.requestedAtMs ?? 0) > requestedAtMs
    if (!hasNewer && this.#epoch === this.#cache.epoch) this.#cache.store(workspaceId, key, response)
    return response
  }

  /** After a 304. @returns null where it does not fit the entry, which is dropped then */
  refresh(unchanged: UpstreamHeaders, policy: ResponsePolicy): CachedResponse | null {
    const { stale } = this.#entry
    const headers = stale === undefined ? null : refreshedHeaders(stale.upstream, unchanged)
    const freshness = headers === null ? null : this.#freshnessOf(headers)
    const decision = headers === null ? null : policy(200, headers)
    if (stale === undefined || headers === null || freshness === null || decision?.kind !== 'pass') {
      this.#drop()
      return null
    }
    return this.store(headers, decision.headers, stale.body, freshness)
  }

  get isRevalidation(): boolean {
    return this.#entry.stale !== undefined
  }

  #freshnessOf(headers: UpstreamHeaders): Freshness | null {
    const nowMs = this.#clock.monotonicMs()
    return freshnessOf(headers, { requestedAtMs: this.#requestedAtMs, nowMs, wallMs: this.#clock.wallMs() })
  }

  #drop(): void {
    this.#cache.drop(this.#entry.workspaceId, this.#entry.key)
  }
}
