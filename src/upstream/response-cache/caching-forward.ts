import type { OnReload } from '../../config/reloadable.ts'
import type { Permit } from '../../domain/authorize.ts'
import type { Clock } from '../../domain/clock.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import type { ClientRequest, Refuse } from '../client-request.ts'
import type { Forward } from '../forward.ts'
import type { UpstreamSettings } from '../pool/connection.ts'
import { respondBuffered } from '../respond.ts'
import type { Upstream } from '../upstream.ts'
import {
  type CacheKeyOf,
  compileCacheKey,
  OWN_VALIDATORS,
  validatorsOf,
  withValidators,
} from './cache-key.ts'
import { CacheUpdate } from './cache-update.ts'
import { type CachedResponse, responseFor, validatorsFor } from './cached-response.ts'
import { CoalescedRequest, type CoalescingParts } from './coalesced-request.ts'
import { coalescingCountsOf } from './coalescing-counts.ts'
import { type Directives, directivesOf, hasValidator, wantsFresher } from './freshness.ts'
import { ResponseCache } from './response-cache.ts'
import type { Waiter } from './waiter.ts'

export interface CachingDeps {
  readonly upstream: Upstream
  /** What requests of other routes go to, and requests that get a response of their own. */
  readonly forward: Forward
  readonly refuse: Refuse
  /** 0 where requests are coalesced, and no response is cached. */
  readonly maxBytes: number
  readonly onReload?: OnReload<UpstreamSettings>
  /** Names of the client's headers that reach the upstream. */
  readonly requestHeaders: readonly string[]
  readonly metrics: Metrics
  readonly clock: Clock
}

/** Coalesces and caches the responses of the routes that allow it; all other requests are forwarded as they are. */
export function createCachingForward(deps: CachingDeps): Forward {
  const caching = new CachingForward(deps)
  return (request, permit, waitedMs) => {
    if (permit.route.sharesAnswers) caching.forward(request, permit)
    else deps.forward(request, permit, waitedMs)
  }
}

class CachingForward {
  readonly #deps: CachingDeps
  readonly #cache: ResponseCache | null
  readonly #cacheKeyOf: CacheKeyOf
  readonly #parts: CoalescingParts
  /** At most as many as requests are in flight. */
  readonly #coalesced = new Map<string, CoalescedRequest>()

  constructor(deps: CachingDeps) {
    const { upstream, refuse, forward, metrics, clock } = deps
    const nowMs = () => clock.monotonicMs()
    this.#deps = deps
    this.#cache = createCache(deps)
    this.#cacheKeyOf = compileCacheKey(deps.requestHeaders)
    this.#parts = { policy: upstream.policy, refuse, forward, nowMs, counts: coalescingCountsOf(metrics) }
  }

  forward(request: ClientRequest, permit: Permit): void {
    const { message, response, observation } = request
    // The client left while its key was looked up: `close` has been emitted.
    if (response.destroyed) return
    observation.phase = 'waiting'
    const wishes = wishesOf(message.headers['cache-control'])
    const cache = wishes.has('no-store') ? null : this.#cache
    const key = this.#cacheKeyOf(permit, message.headers, this.#deps.upstream.forwardedFor(message))
    const cached = cache?.find(permit.grant.workspaceId, key)
    const nowMs = this.#parts.nowMs()
    if (cached !== undefined && isUsable(cached, nowMs, wishes)) {
      this.#respond(request, cached, nowMs)
      return
    }
    // Without a validator a stale response is of no use.
    const stale = cached !== undefined && hasValidator(cached.upstream) ? cached : undefined
    const name = key + (stale === undefined ? validatorsOf(message.headers) : OWN_VALIDATORS)
    const begun = this.#coalesced.get(name)
    if (begun !== undefined) {
      begun.join({ request, permit, sinceMs: nowMs, isFirst: false })
      return
    }
    const update = cache === null ? null : this.#updateOf(cache, permit, key, stale)
    this.#begin(name, { request, permit, sinceMs: nowMs, isFirst: true }, update, stale)
  }

  #respond(request: ClientRequest, cached: CachedResponse, nowMs: number): void {
    request.observation.shared = 'cache'
    this.#parts.counts.cache.inc()
    const ageSeconds = Math.floor((nowMs - cached.bornAtMs) / 1000)
    respondBuffered(request, responseFor(request.message.headers, cached, ageSeconds))
  }

  #updateOf(
    cache: ResponseCache,
    permit: Permit,
    key: string,
    stale: CachedResponse | undefined,
  ): CacheUpdate {
    return new CacheUpdate(cache, this.#deps.clock, { workspaceId: permit.grant.workspaceId, key, stale })
  }

  #begin(name: string, first: Waiter, update: CacheUpdate | null, stale: CachedResponse | undefined): void {
    const { pool, requestFor } = this.#deps.upstream
    const upstreamRequest = requestFor(first.request, first.permit)
    if (stale !== undefined) withValidators(upstreamRequest.headers, validatorsFor(stale))
    const coalesced = new CoalescedRequest(this.#parts, update, closed => {
      if (this.#coalesced.get(name) === closed) this.#coalesced.delete(name)
    })
    this.#coalesced.set(name, coalesced)
    coalesced.join(first)
    coalesced.sentAs(pool.send(upstreamRequest, coalesced))
  }
}

/** @returns null where no response is cached */
function createCache({ maxBytes, onReload, metrics }: CachingDeps): ResponseCache | null {
  if (maxBytes === 0) return null
  const cache = new ResponseCache(maxBytes, metrics)
  // Responses to other fixed headers must not be reused.
  onReload?.(() => () => cache.clear())
  return cache
}

const NO_WISHES = directivesOf(undefined)

function wishesOf(cacheControl: string | undefined): Directives {
  return cacheControl === undefined ? NO_WISHES : directivesOf(cacheControl)
}

function isUsable(cached: CachedResponse, nowMs: number, wishes: Directives): boolean {
  if (nowMs >= cached.freshUntilMs) return false
  const times = { ageMs: nowMs - cached.bornAtMs, freshForMs: cached.freshUntilMs - nowMs }
  return wishes.size === 0 || !wantsFresher(wishes, times)
}
