import { type Denial, denied } from './denial.ts'
import type { KeyGrant } from './key/key-record.ts'
import type { Route } from './route/route.ts'

/** Allows `requests` in each window, for each workspace or for each key. */
export interface RatePolicy {
  readonly name: string
  /** Which requests are counted together: those of all keys of a workspace, or those of one key. */
  readonly per: 'workspace' | 'key'
  /** The route it applies to. */
  readonly route?: string | undefined
  /** The scope it applies to: requests to all routes that need it are counted together. With neither, all routes. */
  readonly scope?: string | undefined
  readonly requests: number
  /** A window of this length, which begins with its first request. A policy has this or `window`. */
  readonly windowSeconds?: number | undefined
  /** The calendar month, in UTC. */
  readonly window?: 'month' | undefined
}

/** The policies of keys without a plan, and those of each plan, which stand in their place. */
export interface PolicySettings {
  readonly policies: readonly RatePolicy[]
  readonly plans: Readonly<Record<string, { readonly policies: readonly RatePolicy[] }>>
}

/** The count of one policy for one workspace or key, the current request included. */
export interface PolicyCount {
  readonly policy: RatePolicy
  /** Length of the whole window. */
  readonly windowSeconds: number
  readonly exceeded: boolean
  /** Requests left in the window. */
  readonly remaining: number
  /** Milliseconds until the window ends. */
  readonly resetMs: number
}

/** From this share of a limit on, it is listed and webhooks get an event. */
export const NEAR_LIMIT_PERCENT = 80
const SHORTEST_LISTED_SECONDS = 60

/** A window of a limit that is at least so full, as a gateway saw it last. */
export interface LimitUse {
  readonly workspaceId: string
  /** Null: the requests of all keys of the workspace are counted together. */
  readonly keyId: string | null
  /** Whose policy it is; null: that of keys without a plan. */
  readonly plan: string | null
  readonly policy: string
  /** Null: the calendar month. */
  readonly windowSeconds: number | null
  readonly requests: number
  /** Never more than the limit. */
  readonly used: number
  /** Milliseconds since the epoch. */
  readonly endsAt: number
}

/** Whether a window is so full that it is listed. Windows of less than a minute are not: they are over before people read of them. */
export function isNearLimit({ policy, windowSeconds, remaining }: PolicyCount): boolean {
  const used = policy.requests - remaining
  return used * 100 >= policy.requests * NEAR_LIMIT_PERCENT && windowSeconds >= SHORTEST_LISTED_SECONDS
}

export function selectPolicies(
  route: Pick<Route, 'name' | 'scope'>,
  policies: readonly RatePolicy[],
): RatePolicy[] {
  return policies.filter(
    policy =>
      (policy.route === undefined || policy.route === route.name) &&
      (policy.scope === undefined || policy.scope === route.scope),
  )
}

/** All policies, whichever plan they belong to. */
export function listPolicies({ policies, plans }: PolicySettings): readonly RatePolicy[] {
  return [...policies, ...Object.values(plans).flatMap(plan => plan.policies)]
}

/** @param plan an unknown one counts as none @returns the policies that hold, and whose they are: a plan's, or null */
export function policiesOfPlan(
  { policies, plans }: PolicySettings,
  plan: string | null,
): { readonly plan: string | null; readonly policies: readonly RatePolicy[] } {
  const own = plan !== null && Object.hasOwn(plans, plan) ? plans[plan] : undefined
  return own === undefined ? { plan: null, policies } : { plan, policies: own.policies }
}

/** Finds the policies that hold for a request. */
export class PolicyTable {
  readonly #plans: ReadonlyMap<string, PoliciesByRoute>
  readonly #withoutPlan: PoliciesByRoute

  constructor({ policies, plans }: PolicySettings) {
    this.#withoutPlan = new PoliciesByRoute(policies)
    this.#plans = new Map(
      Object.entries(plans).map(([plan, { policies }]) => [plan, new PoliciesByRoute(policies)]),
    )
  }

  knows(plan: string): boolean {
    return this.#plans.has(plan)
  }

  /** @param plan of the key; an unknown one counts as none */
  policiesFor(plan: string | null, route: Pick<Route, 'name' | 'scope'>): readonly RatePolicy[] {
    const ofPlan = plan === null ? undefined : this.#plans.get(plan)
    return (ofPlan ?? this.#withoutPlan).select(route)
  }
}

/** There are few routes, so what applies to each is remembered. */
class PoliciesByRoute {
  readonly #policies: readonly RatePolicy[]
  readonly #selected = new Map<string, readonly RatePolicy[]>()

  constructor(policies: readonly RatePolicy[]) {
    this.#policies = policies
  }

  select(route: Pick<Route, 'name' | 'scope'>): readonly RatePolicy[] {
    let selected = this.#selected.get(route.name)
    if (selected === undefined) {
      selected = selectPolicies(route, this.#policies)
      this.#selected.set(route.name, selected)
    }
    return selected
  }
}

/** The window of a policy in which a request falls. */
export interface RateWindow {
  /** Distinguishes its counter from those of other windows. */
  readonly name: string
  /** Length of the whole window. */
  readonly seconds: number
  /** Milliseconds until it ends, if it begins with this request; never more, if it has begun. */
  readonly leftMs: number
  /** Seconds after which Redis may drop a counter that begins with this request. */
  readonly keptSeconds: number
}

/** Gateways whose clocks differ, also by hours, count a month that ends to its end. */
const MONTH_KEPT_AFTER_END_SECONDS = 86_400

/** @param wallMs milliseconds since the epoch */
export function currentWindow({ windowSeconds }: RatePolicy, wallMs: number): RateWindow {
  if (windowSeconds === undefined) return monthAt(new Date(wallMs))
  return {
    name: String(windowSeconds),
    seconds: windowSeconds,
    leftMs: windowSeconds * 1000,
    keptSeconds: windowSeconds,
  }
}

function monthAt(now: Date): RateWindow {
  const year = now.getUTCFullYear()
  const month = now.getUTCMonth()
  const endsAtMs = Date.UTC(year, month + 1)
  const leftMs = endsAtMs - now.getTime()
  return {
    name: now.toISOString().slice(0, 'YYYY-MM'.length),
    seconds: (endsAtMs - Date.UTC(year, month)) / 1000,
    leftMs,
    keptSeconds: Math.ceil(leftMs / 1000) + MONTH_KEPT_AFTER_END_SECONDS,
  }
}

/**
 * The name of a policy's counter, in Redis and in memory. The workspace in braces is the hash tag: in a cluster one node
 * holds all counters of a request. The name contains the window's length or month, so that a shorter configured window
 * starts at once. It does not contain the plan, so that a change of plan keeps the count of a policy that both have. The
 * key id comes last, because it may contain a colon; a workspace id may not.
 */
export function counterName(
  { name, per }: RatePolicy,
  window: Pick<RateWindow, 'name'>,
  { workspaceId, id }: Pick<KeyGrant, 'workspaceId' | 'id'>,
): string {
  const counter = `postern:limit:{${workspaceId}}:${name}:${window.name}`
  return per === 'key' ? `${counter}:${id}` : counter
}

/**
 * @param counts of all policies that apply, or at least of the exceeded ones
 * @returns null if the request exceeds none of them
 */
export function denialOfCounts(counts: readonly PolicyCount[]): Denial | null {
  const waitsMs = counts.filter(count => count.exceeded).map(count => count.resetMs)
  if (waitsMs.length === 0) return null
  return denied('rate_limited', { retryAfterSeconds: secondsUntil(Math.max(...waitsMs)) })
}

/** Whole seconds, rounded up, so that a client that waits this long does not retry too early. */
export function secondsUntil(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000))
}

/** Requests that each of so many gateways allows while they cannot count together; at least 1. */
export function localLimit(requests: number, gateways: number): number {
  return Math.max(1, Math.floor(requests / gateways))
}

/** Allows `perSecond` actions a second on average, and up to `burst` at once. */
export class TokenBucket {
  readonly #perSecond: number
  readonly #burst: number
  #tokens: number
  #filledAtMs = Number.NEGATIVE_INFINITY

  constructor({ perSecond, burst }: { perSecond: number; burst: number }) {
    this.#perSecond = perSecond
    this.#burst = burst
    this.#tokens = burst
  }

  /** @param nowMs monotonic. @returns whether the action is allowed */
  take(nowMs: number): boolean {
    const gained = ((nowMs - this.#filledAtMs) / 1000) * this.#perSecond
    this.#tokens = Math.min(this.#burst, this.#tokens + gained)
    this.#filledAtMs = nowMs
    if (this.#tokens < 1) return false
    this.#tokens--
    return true
  }

  /** Undoes one `take`. */
  putBack(): void {
    this.#tokens = Math.min(this.#burst, this.#tokens + 1)
  }
}
