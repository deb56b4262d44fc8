import { LRUCache } from 'lru-cache'
import type { Permit } from '../domain/authorize.ts'
import { atMost } from '../domain/bounded.ts'
import type { Clock } from '../domain/clock.ts'
import type { KeyGrant } from '../domain/key/key-record.ts'
import {
  counterName,
  currentWindow,
  isNearLimit,
  listPolicies,
  localLimit,
  type PolicyCount,
  type PolicySettings,
  PolicyTable,
  type RatePolicy,
  type RateWindow,
} from '../domain/rate-limit.ts'
import type { Log } from '../observability/failure-log.ts'
import {
  type CounterHandle,
  handlesBy,
  LIMIT_BACKENDS,
  LIMIT_OUTCOMES,
  type Metrics,
} from '../observability/metrics/metrics.ts'
import type { NearLimits } from './near-limits.ts'

/** Counters that all gateways share. */
export interface SharedCounters {
  /** @returns null if Redis is unavailable or misses the deadline; it never rejects */
  count(counters: readonly RateCounter[], nowMs: number): Promise<readonly PolicyCount[] | null>
}

interface RateLimiterParts {
  readonly settings: PolicySettings
  readonly gateways: Pick<GatewayCount, 'value'>
  readonly shared: SharedCounters | null
  readonly local: LocalCounters
  readonly unknownPlans: Pick<UnknownPlans, 'count'>
  readonly nearLimits: Pick<NearLimits, 'note'>
  readonly clock: Clock
  readonly metrics: Metrics
}

type Backend = (typeof LIMIT_BACKENDS)[number]
type Decisions = Readonly<Record<Backend, Readonly<Record<(typeof LIMIT_OUTCOMES)[number], CounterHandle>>>>

/** Counts in Redis together with the other gateways; without Redis, counts a share of each limit in this process. */
export class RateLimiter {
  readonly #parts: RateLimiterParts
  #table: PolicyTable
  /** By name of the policy: plans may have policies of one name. */
  readonly #decisions = new Map<string, Decisions>()

  constructor(parts: RateLimiterParts) {
    this.#parts = parts
    this.#table = this.#read(parts.settings)
  }

  /** From now on these policies hold. Counts go on where a policy keeps its name and its window. */
  replacePolicies(settings: PolicySettings): void {
    this.#table = this.#read(settings)
  }

  /**
   * Counts one request that passed all other checks. Never rejects: without Redis, this process counts alone.
   * @returns null if no policy applies; else the counts of all that apply, or only of the exceeded ones if there are any
   */
  count({ route, grant }: Pick<Permit, 'route' | 'grant'>): Promise<readonly PolicyCount[]> | null {
    const { plan } = grant
    if (plan !== null && !this.#table.knows(plan)) this.#parts.unknownPlans.count(plan)
    const policies = this.#table.policiesFor(plan, route)
    return policies.length === 0 ? null : this.#count(policies, grant)
  }

  async #count(policies: readonly RatePolicy[], grant: KeyGrant): Promise<readonly PolicyCount[]> {
    const { shared, local, clock, gateways } = this.#parts
    const wallMs = clock.wallMs()
    const counters = policies.map(policy => toCounter(policy, grant, wallMs))
    const sharedCounts = shared === null ? null : await shared.count(counters, clock.monotonicMs())
    if (sharedCounts !== null) {
      this.#noteNear(counters, sharedCounts, grant, wallMs)
      return this.#record(sharedCounts, 'redis')
    }
    const localCounters = counters.map(counter => ({
      ...counter,
      requests: localLimit(counter.requests, gateways.value),
    }))
    return this.#record(local.count(localCounters, clock.monotonicMs()), 'local')
  }

  /** Only what Redis counted: a gateway that counts alone does not know how much of a limit is used. */
  #noteNear(
    counters: readonly RateCounter[],
    counts: readonly PolicyCount[],
    grant: KeyGrant,
    nowMs: number,
  ): void {
    const near = counts.filter(isNearLimit)
    if (near.length === 0) return
    const plan = grant.plan !== null && this.#table.knows(grant.plan) ? grant.plan : null
    for (const count of near) {
      const counter = counters.find(({ policy }) => policy === count.policy)
      if (counter !== undefined) this.#parts.nearLimits.note(counter.name, count, { grant, plan }, nowMs)
    }
  }

  #read(settings: PolicySettings): PolicyTable {
    const { metrics, shared } = this.#parts
    const backends = LIMIT_BACKENDS.filter(backend => backend === 'local' || shared !== null)
    for (const { name: policy } of listPolicies(settings)) {
      const decisions = handlesBy(backends, backend =>
        handlesBy(LIMIT_OUTCOMES, outcome => metrics.limitDecisions.handle({ policy, outcome, backend })),
      )
      this.#decisions.set(policy, decisions)
    }
    return new PolicyTable(settings)
  }

  /** Counts the decision by policy: a rejected request only for the policies that it exceeds. */
  #record(counts: readonly PolicyCount[], backend: Backend): readonly PolicyCount[] {
    const exceeded = counts.filter(count => count.exceeded)
    const outcome = exceeded.length > 0 ? 'limited' : 'allowed'
    const deciding = exceeded.length > 0 ? exceeded : counts
    for (const { policy } of deciding) this.#decisions.get(policy.name)?.[backend][outcome].inc()
    return deciding
  }
}

/** One of the counters that a request increments: the count of one policy for one workspace or key. */
export interface RateCounter {
  readonly policy: RatePolicy
  readonly window: RateWindow
  /** As returned by `counterName`. */
  readonly name: string
  /** Requests that this process allows in the window. */
  readonly requests: number
}

function toCounter(policy: RatePolicy, grant: KeyGrant, wallMs: number): RateCounter {
  const window = currentWindow(policy, wallMs)
  return { policy, window, name: counterName(policy, window, grant), requests: policy.requests }
}

/** @param used requests in the window, this one included. @param endsInMs of a counter, which may outlive a month */
export function toPolicyCount(
  { policy, window, requests }: RateCounter,
  used: number,
  endsInMs: number,
): PolicyCount {
  return {
    policy,
    windowSeconds: window.seconds,
    exceeded: used > requests,
    remaining: Math.max(0, requests - used),
    resetMs: Math.max(0, Math.min(endsInMs, window.leftMs)),
  }
}

/** Names that are logged until the policies change: a key service may send any. */
const MAX_LOGGED_PLANS = 100

/** Keys whose plan is not in the settings of this gateway. The policies of keys without a plan hold for them. */
export class UnknownPlans {
  readonly #log: Pick<Log, 'warn'>
  readonly #requests: Pick<CounterHandle, 'inc'>
  readonly #logged = new Set<string>()

  constructor(log: Pick<Log, 'warn'>, metrics: Pick<Metrics, 'unknownPlanRequests'>) {
    this.#log = log
    this.#requests = metrics.unknownPlanRequests.handle({})
  }

  /** Counts each request, and logs the plan the first time. */
  count(plan: string): void {
    this.#requests.inc()
    if (this.#logged.has(plan) || this.#logged.size >= MAX_LOGGED_PLANS) return
    this.#logged.add(plan)
    const advice = 'add it to limits.plans of this gateway, or change the plan of the keys'
    this.#log.warn({ plan, advice }, 'plan unknown, limits.policies apply')
  }

  /** A plan that is still unknown, or unknown again, is logged again. */
  policiesChanged(): void {
    this.#logged.clear()
  }
}

/** Beyond this number of windows, the least recently used one is dropped; its next request starts a new window. */
const MAX_COUNTERS = 100_000

interface Window {
  used: number
  /** Monotonic, ms. */
  readonly endsAtMs: number
}

/** Windows of this process only. Each starts with its first request, so that they do not all end at the same moment. */
export class LocalCounters {
  readonly #windows: LRUCache<string, Window>

  constructor(maxCounters = MAX_COUNTERS) {
    this.#windows = new LRUCache(atMost(maxCounters))
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
      if (allowed) window.used++
      const isExhausted = !allowed && window.used >= counter.requests
      return toPolicyCount(counter, window.used + (isExhausted ? 1 : 0), window.endsAtMs - nowMs)
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

function begin({ window }: RateCounter, nowMs: number): Window {
  return { used: 0, endsAtMs: nowMs + window.leftMs }
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
