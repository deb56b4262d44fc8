import type { OnReload } from '../../config/reloadable.ts'
import type { Permit } from '../../domain/authorize.ts'
import type { Clock } from '../../domain/clock.ts'
import { awaitUpstream } from '../../http/guard-connections.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import type { ClientRequest, Deny } from '../client-request.ts'
import type { Forward } from '../forward.ts'
import type { UpstreamSettings } from '../pool/connection.ts'
import { respondBuffered } from '../respond.ts'
import type { Upstream } from '../upstream.ts'
import {
  type ComputeCacheKey,
  compileCacheKey,
  OWN_VALIDATORS,
  validatorKey,
  withValidators,
} from './cache-key.ts'
import {
  CoalescedRequest,
  type CoalescingParts,
  createCoalescingCounts,
  type Waiter,
} from './coalesced-request.ts'
import { type Directives, hasValidator, parseDirectives, wantsFresher } from './freshness.ts'
import {
  type CachedResponse,
  CacheUpdate,
  ResponseCache,
  responseFor,
  validatorsFor,
} from './response-cache.ts'

interface ResponseCacheDeps {
  readonly upstream: Upstream
  readonly deny: Deny
  /** Capacity of the cache in bytes; with 0 requests are coalesced and no response is cached. */
  readonly maxBytes: number
  readonly onReload: OnReload<UpstreamSettings>
  /** Names of the client's headers that reach the upstream. */
  readonly requestHeaders: readonly string[]
  readonly metrics: Metrics
  readonly clock: Clock
}

/**
 * Coalesces requests and caches responses on the routes that allow it.
 * @param forward forwards all other requests
 */
export function withResponseCache(forward: Forward, deps: ResponseCacheDeps): Forward {
  const coalescer = new Coalescer(forward, deps)
  return (request, permit, waitedMs) => {
    if (permit.route.isCoalesced) coalescer.forward(request, permit)
    else forward(request, permit, waitedMs)
  }
}

class Coalescer {
  readonly #deps: ResponseCacheDeps
  readonly #cache: ResponseCache | null
  readonly #computeCacheKey: ComputeCacheKey
  readonly #parts: CoalescingParts
  /** By cache key and validators. Bounded by the number of requests in flight. */
  readonly #coalesced = new Map<string, CoalescedRequest>()

  constructor(forward: Forward, deps: ResponseCacheDeps) {
    const { upstream, deny, metrics, clock } = deps
    const nowMs = () => clock.monotonicMs()
    this.#deps = deps
    this.#cache = deps.maxBytes === 0 ? null : new ResponseCache(deps.maxBytes, metrics)
    this.#computeCacheKey = compileCacheKey(deps.requestHeaders)
    this.#parts = { policy: upstream.policy, deny, forward, nowMs, counts: createCoalescingCounts(metrics) }
    // Cached responses and requests in flight belong to the former fixed headers.
    deps.onReload(() => () => {
      this.#cache?.clear()
      this.#coalesced.clear()
    })
  }

  forward(request: ClientRequest, permit: Permit): void {
    const { message, response, observation } = request
    // The client disconnected during the lookup: `close` has been emitted.
    if (response.destroyed) return
    observation.phase = 'waiting'
    const requested = requestDirectives(message.headers['cache-control'])
    const cache = requested.has('no-store') ? null : this.#cache
    const key = this.#computeCacheKey(permit, message.headers, this.#deps.upstream.forwardedFor(message))
    const cached = cache?.find(permit.grant.workspaceId, key)
    const nowMs = this.#parts.nowMs()
    if (cached !== undefined && isUsable(cached, nowMs, requested)) {
      this.#respond(request, cached, nowMs)
      return
    }
    if (!awaitUpstream(request)) return
    // A stale response without a validator cannot be revalidated.
    const stale = cached !== undefined && hasValidator(cached.upstream) ? cached : undefined
    const coalescingKey = key + (stale === undefined ? validatorKey(message.headers) : OWN_VALIDATORS)
    const inFlight = this.#coalesced.get(coalescingKey)
    if (inFlight !== undefined) {
      inFlight.join({ request, permit, sinceMs: nowMs, isFirst: false })
      return
    }
    const update = cache === null ? null : this.#createUpdate(cache, permit, key, stale)
    this.#begin(coalescingKey, { request, permit, sinceMs: nowMs, isFirst: true }, update, stale)
  }

  #respond(request: ClientRequest, cached: CachedResponse, nowMs: number): void {
    request.observation.shared = 'cache'
    this.#parts.counts.cache.inc()
    const ageSeconds = Math.floor((nowMs - cached.bornAtMs) / 1000)
    respondBuffered(request, responseFor(request.message.headers, cached, ageSeconds))
  }

  #createUpdate(
    cache: ResponseCache,
    permit: Permit,
    key: string,
    stale: CachedResponse | undefined,
  ): CacheUpdate {
    return new CacheUpdate(cache, this.#deps.clock, { workspaceId: permit.grant.workspaceId, key, stale })
  }

  #begin(
    coalescingKey: string,
    first: Waiter,
    update: CacheUpdate | null,
    stale: CachedResponse | undefined,
  ): void {
    const { send, requestFor } = this.#deps.upstream
    const upstreamRequest = requestFor(first.request, first.permit)
    if (stale !== undefined) withValidators(upstreamRequest.headers, validatorsFor(stale))
    const coalesced = new CoalescedRequest(this.#parts, update, closed => {
      if (this.#coalesced.get(coalescingKey) === closed) this.#coalesced.delete(coalescingKey)
    })
    this.#coalesced.set(coalescingKey, coalesced)
    coalesced.join(first)
    coalesced.attach(send(first.permit, upstreamRequest, coalesced))
  }
}

const NO_DIRECTIVES = parseDirectives(undefined)

function requestDirectives(cacheControl: string | undefined): Directives {
  return cacheControl === undefined ? NO_DIRECTIVES : parseDirectives(cacheControl)
}

function isUsable(cached: CachedResponse, nowMs: number, requested: Directives): boolean {
  if (nowMs >= cached.freshUntilMs) return false
  const times = { ageMs: nowMs - cached.bornAtMs, freshForMs: cached.freshUntilMs - nowMs }
  return requested.size === 0 || !wantsFresher(requested, times)
}
