import type { Permit } from '../domain/authorize.ts'
import type { Clock } from '../domain/clock.ts'
import {
  counterNameOf,
  localLimitOf,
  type PolicyCount,
  policiesOf,
  type RatePolicy,
} from '../domain/limits/rate-limit.ts'
import type { Route } from '../domain/route/route.ts'
import {
  type CounterHandle,
  handlesBy,
  LIMIT_BACKENDS,
  LIMIT_OUTCOMES,
  type Metrics,
} from '../observability/metrics/metrics.ts'
import type { GatewayCount } from './gateway-count.ts'
import type { LocalCounters, RateCounter } from './local-counters.ts'

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

export interface RateLimiterParts {
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
    const decisionsOf = ({ name: policy }: RatePolicy) =>
      handlesBy(backends, backend =>
        handlesBy(LIMIT_OUTCOMES, outcome => limitDecisions.handle({ policy, outcome, backend })),
      )
    this.#decisions = new Map(parts.policies.map(policy => [policy, decisionsOf(policy)]))
  }

  applyTo(route: Route): boolean {
    return this.#policiesOf(route).length > 0
  }

  async count({ route, grant }: Pick<Permit, 'route' | 'grant'>): Promise<readonly PolicyCount[]> {
    const { shared, local, clock, gateways } = this.#parts
    const nowMs = clock.monotonicMs()
    const counters = this.#policiesOf(route).map(policy => ({
      policy,
      name: counterNameOf(policy, grant),
      requests: policy.requests,
    }))
    const sharedCounts = shared === null ? null : await shared.count(counters, nowMs)
    if (sharedCounts !== null) return this.#record(sharedCounts, 'redis')
    const localCounters = counters.map(counter => ({
      ...counter,
      requests: localLimitOf(counter.requests, gateways.value),
    }))
    return this.#record(local.count(localCounters, clock.monotonicMs()), 'local')
  }

  #policiesOf(route: Route): readonly RatePolicy[] {
    let policies = this.#policies.get(route.name)
    if (policies === undefined) {
      policies = policiesOf(route, this.#parts.policies)
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
