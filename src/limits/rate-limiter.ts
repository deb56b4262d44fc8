import { LRUCache } from 'lru-cache'
import type { Permit } from '../domain/authorize.ts'
import type { Clock } from '../domain/clock.ts'
import {
  counterName,
  localLimit,
  type PolicyCount,
  type RatePolicy,
  selectPolicies,
} from '../domain/rate-limit.ts'
import type { Route } from '../domain/route/route.ts'
import {
  type CounterHandle,
  handlesBy,
  LIMIT_BACKENDS,
  LIMIT_OUTCOMES,
  type Metrics,
} from '../observability/metrics/metrics.ts'

/** The gateway's view of rate limits. */
export interface RateLimits {
  /** Whether a policy applies to this route. */
  applyTo(route: Route): boolean
  /**
   * Counts one request that passed all other checks. Never rejects: without Redis, this process counts alone.
   * @returns the counts of all policies that apply, or only of the exceeded ones if there are any
   */
  count(permit: Pick<Permit, 'route' | 'grant'>): Promise<readonly PolicyCount[]>
}

/** Counters that all gateways share. */
export interface SharedCounters {
  /** @returns null if Redis is unavailable or misses the deadline; it never rejects */
  count(counters: readonly RateCounter[], nowMs: number): Promise<readonly PolicyCount[] | null>
}

interface RateLimiterParts {
  readonly policies: readonly RatePolicy[]
  readonly gateways: Pick<GatewayCount, 'value'>
  readonly shared: SharedCounters | null
  readonly local: LocalCounters
  readonly clock: Clock
  readonly metrics: Metrics
}

type Backend = (typeof LIMIT_BACKENDS)[number]
type Decisions = Readonly<Record<Backend, Readonly<Record<(typeof LIMIT_OUTCOMES)[number], CounterHandle>>>>

/** Counts in Redis together with the other gateways; without Redis, counts a share of each limit in this process. */
export class RateLimiter implements RateLimits {
  readonly #parts: RateLimiterParts
  readonly #policies = new Map<string, readonly RatePolicy[]>()
  readonly #decisions: ReadonlyMap<RatePolicy, Decisions>

  constructor(parts: RateLimiterParts) {
    this.#parts = parts
    const { limitDecisions } = parts.metrics
    const backends = LIMIT_BACKENDS.filter(backend => backend === 'local' || parts.shared !== null)
    const decisionHandles = ({ name: policy }: RatePolicy) =>
      handlesBy(backends, backend =>
        handlesBy(LIMIT_OUTCOMES, outcome => limitDecisions.handle({ policy, outcome, backend })),
      )
    this.#decisions = new Map(parts.policies.map(policy => [policy, decisionHandles(policy)]))
  }

  applyTo(route: Route): boolean {
    return this.#policiesFor(route).length > 0
  }

  async count({ route, grant }: Pick<Permit, 'route' | 'grant'>): Promise<readonly PolicyCount[]> {
    const { shared, local, clock, gateways } = this.#parts
    const nowMs = clock.monotonicMs()
    const counters = this.#policiesFor(route).map(policy => ({
      policy,
      name: counterName(policy, grant),
      requests: policy.requests,
    }))
    const sharedCounts = shared === null ? null : await shared.count(counters, nowMs)
    if (sharedCounts !== null) return this.#record(sharedCounts, 'redis')
    const localCounters = counters.map(counter => ({
      ...counter,
      requests: localLimit(counter.requests, gateways.value),
    }))
    return this.#record(local.count(localCounters, clock.monotonicMs()), 'local')
  }

  #policiesFor(route: Route): readonly RatePolicy[] {
    let policies = this.#policies.get(route.name)
    if (policies === undefined) {
      policies = selectPolicies(route, this.#parts.policies)
      this.#policies.set(route.name, policies)
    }
    return policies
  }

  /** Counts the decision by policy: a rejected request only for the policies that it exceeds. */
  #record(counts: readonly PolicyCount[], backend: Backend): readonly PolicyCount[] {
    const exceeded = counts.filter(count => count.exceeded)
    const outcome = exceeded.length > 0 ? 'limited' : 'allowed'
    const deciding = exceeded.length > 0 ? exceeded : counts
    for (const { policy } of deciding) this.#decisions.get(policy)?.[backend][outcome].inc()
    return deciding
  }
}

/** Beyond this number of windows, the least recently used one is dropped; its next request starts a new window. */
const MAX_COUNTERS = 100_000

interface Window {
  used: number
  /** Monotonic, ms. */
  readonly endsAtMs: number
}

/** One of the counters that a request increments: the count of one policy for one workspace or key. */
export interface RateCounter {
  readonly policy: RatePolicy
  /** As returned by `counterName`. */
  readonly name: string
  /** Requests that this process allows in a window. */
  readonly requests: number
}

/** Windows of this process only. Each starts with its first request, so that they do not all end at the same moment. */
export class LocalCounters {
  readonly #windows: LRUCache<string, Window>

  constructor(maxCounters = MAX_COUNTERS) {
    this.#windows = new LRUCache({ max: maxCounters })
  }

  get size(): number {
    return this.#windows.size
  }

  /** Increments all counters, or none if one is exhausted. @param nowMs monotonic */
  count(counters: readonly RateCounter[], nowMs: number): PolicyCount[] {
    const windows = counters.map(counter => this.#currentWindow(counter, nowMs))
    const allowed = counters.every(({ requests }, index) => (windows[index]?.used ?? 0) < requests)
    return counters.map((counter, index) => {
      const window = windows[index] ?? begin(counter, nowMs)
      const exceeded = !allowed && window.used >= counter.requests
      if (allowed) window.used++
      const remaining = Math.max(0, counter.requests - window.used)
      return { policy: counter.policy, exceeded, remaining, resetMs: window.endsAtMs - nowMs }
    })
  }

  #currentWindow(counter: RateCounter, nowMs: number): Window {
    const known = this.#windows.get(counter.name)
    if (known !== undefined && nowMs < known.endsAtMs) return known
    const window = begin(counter, nowMs)
    this.#windows.set(counter.name, window)
    return window
  }
}

function begin({ policy }: RateCounter, nowMs: number): Window {
  return { used: 0, endsAtMs: nowMs + policy.windowSeconds * 1000 }
}

/** A lower number is used once it has been reported for so long: a gateway that restarts is back earlier. */
const FEWER_AFTER_MS = 60_000
/** The bound of `limits.replicas`: a key service cannot make a gateway reject everything. */
const MAX_GATEWAYS = 10_000

/** The number of gateways that share each limit while they cannot count together: configured, then as reported. */
export class GatewayCount {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  #value: number
  /** Reports of fewer gateways than are counted: since when (monotonic, ms), and the highest of them. */
  #fewer: { readonly sinceMs: number; readonly most: number } | null = null

  /** @param configured `limits.replicas`, used until the key service reports a number */
  constructor(configured: number, clock: Pick<Clock, 'monotonicMs'>) {
    this.#value = configured
    this.#clock = clock
  }

  get value(): number {
    return this.#value
  }

  /** More gateways count at once, because the limits would be exceeded; fewer only after a minute. */
  report(reported: number): void {
    if (!Number.isInteger(reported) || reported < 1 || reported > MAX_GATEWAYS) return
    if (reported >= this.#value) {
      this.#value = reported
      this.#fewer = null
      return
    }
    const nowMs = this.#clock.monotonicMs()
    const { sinceMs, most } = this.#fewer ?? { sinceMs: nowMs, most: 0 }
    this.#fewer = { sinceMs, most: Math.max(most, reported) }
    if (nowMs - sinceMs < FEWER_AFTER_MS) return
    this.#value = this.#fewer.most
    this.#fewer = null
  }
}
