import type { Permit } from '../domain/authorize.ts'
import type { Clock } from '../domain/clock.ts'
import { type Count, counterOf, partOf, policiesOf, type RatePolicy } from '../domain/rate-limit.ts'
import type { Route } from '../domain/route.ts'
import {
  type CounterHandle,
  handlesBy,
  LIMIT_BACKENDS,
  LIMIT_OUTCOMES,
  type Metrics,
} from '../observability/metrics.ts'
import type { Counter, LocalCounters } from './local-counters.ts'

/** All that the gateway knows of rate limits. */
export interface RateLimits {
  /** Whether requests of this route are counted at all. */
  applyTo(route: Route): boolean
  /**
   * Counts one request, which everything else permits. It never fails: where Redis cannot be asked, it is counted here.
   * @returns how each policy stands that applies; where one is exceeded, those alone that are
   */
  count(permit: Pick<Permit, 'route' | 'grant'>): Promise<readonly Count[]>
}

/** Counters that all gateways share. */
export interface SharedCounters {
  /** @returns null where nobody can be asked now, at once or within the deadline; it never rejects */
  count(counters: readonly Counter[], nowMs: number): Promise<readonly Count[] | null>
}

export interface RateLimiterParts {
  readonly policies: readonly RatePolicy[]
  readonly replicas: number
  readonly shared: SharedCounters | null
  readonly local: LocalCounters
  readonly clock: Clock
  readonly metrics: Metrics
}

type Backend = (typeof LIMIT_BACKENDS)[number]
type Decisions = Readonly<Record<Backend, Readonly<Record<(typeof LIMIT_OUTCOMES)[number], CounterHandle>>>>

/** Counts together with the other gateways, and alone where that cannot be. */
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

  async count({ route, grant }: Pick<Permit, 'route' | 'grant'>): Promise<readonly Count[]> {
    const { shared, local, clock, replicas } = this.#parts
    const nowMs = clock.monotonicMs()
    const counters = this.#policiesOf(route).map(policy => ({
      policy,
      name: counterOf(policy, grant),
      requests: policy.requests,
    }))
    const together = shared === null ? null : await shared.count(counters, nowMs)
    if (together !== null) return this.#told(together, 'redis')
    const parts = counters.map(counter => ({ ...counter, requests: partOf(counter.requests, replicas) }))
    return this.#told(local.count(parts, clock.monotonicMs()), 'local')
  }

  #policiesOf(route: Route): readonly RatePolicy[] {
    let policies = this.#policies.get(route.name)
    if (policies === undefined) {
      policies = policiesOf(route, this.#parts.policies)
      this.#policies.set(route.name, policies)
    }
    return policies
  }

  /** A request that is refused was decided by the policies that refuse it. */
  #told(counts: readonly Count[], backend: Backend): readonly Count[] {
    const exceeded = counts.filter(count => count.exceeded)
    const outcome = exceeded.length > 0 ? 'limited' : 'allowed'
    const told = exceeded.length > 0 ? exceeded : counts
    for (const { policy } of told) this.#decisions.get(policy)?.[backend][outcome].inc()
    return told
  }
}
