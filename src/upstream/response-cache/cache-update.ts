import type { Clock } from '../../domain/clock.ts'
import type { ByteString } from '../../http/byte-string.ts'
import type { ResponsePolicy, UpstreamHeaders } from '../response-policy.ts'
import { type CachedResponse, refreshedHeaders, toCachedResponse } from './cached-response.ts'
import { type Freshness, freshnessOf } from './freshness.ts'
import type { ResponseCache } from './response-cache.ts'

export interface CacheEntry {
  readonly workspaceId: string
  readonly key: string
  /** The cached response to revalidate, if there is one. */
  readonly stale: CachedResponse | undefined
}

/** Applies one response of the upstream to its cache entry. */
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

  /** @returns null if the response may not be stored; most of these responses drop the entry */
  freshnessOf(statusCode: number, headers: UpstreamHeaders): Freshness | null {
    const freshness = statusCode === 200 ? this.#freshnessOf(headers) : null
    // A 5xx or a 304 does not mean that the entry is out of date.
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
    // The response that was requested last is the newest, even if it arrives first.
    const hasNewer = (this.#cache.find(workspaceId, key)?.requestedAtMs ?? 0) > requestedAtMs
    if (!hasNewer && this.#epoch === this.#cache.epoch) this.#cache.store(workspaceId, key, response)
    return response
  }

  /** Refreshes the entry after a 304. @returns null if the 304 does not fit the entry, which is then dropped */
  refresh(notModified: UpstreamHeaders, policy: ResponsePolicy): CachedResponse | null {
    const { stale } = this.#entry
    const headers = stale === undefined ? null : refreshedHeaders(stale.upstream, notModified)
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
