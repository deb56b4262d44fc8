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
  readonly windowSeconds: number
}

/** The count of one policy for one workspace or key, the current request included. */
export interface PolicyCount {
  readonly policy: RatePolicy
  readonly exceeded: boolean
  /** Requests left in the window. */
  readonly remaining: number
  /** Milliseconds until the window ends. */
  readonly resetMs: number
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

/**
 * The name of a policy's counter, in Redis and in memory. The workspace in braces is the hash tag: in a cluster one node
 * holds all counters of a request. The name contains the window's length, so that a shorter configured window starts at
 * once. The key id comes last, because it may contain a colon; a workspace id may not.
 */
export function counterName({ name, per, windowSeconds }: RatePolicy, { workspaceId, id }: KeyGrant): string {
  const counter = `postern:limit:{${workspaceId}}:${name}:${windowSeconds}`
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
