import { type Denial, denied } from './denial.ts'
import type { KeyGrant } from './key/key-record.ts'
import type { Route } from './route.ts'

/** So many requests in each window, for each workspace or for each key. */
export interface RatePolicy {
  readonly name: string
  /** Whose requests are counted together: those of a workspace, whichever of its keys is used, or those of one key. */
  readonly per: 'workspace' | 'key'
  /** The one route that it is about. */
  readonly route?: string | undefined
  /** The scope that it is about: all routes that need it, counted together. With neither, all routes are. */
  readonly scope?: string | undefined
  readonly requests: number
  readonly windowSeconds: number
}

/** The count of one policy for one caller, the current request included. */
export interface Count {
  readonly policy: RatePolicy
  readonly exceeded: boolean
  /** Requests that are left in the window. */
  readonly remaining: number
  /** Until the window ends. */
  readonly resetMs: number
}

export function policiesOf(
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
 * The name of what is counted, in Redis as in memory. Between the braces is the workspace: in a cluster all counters of a
 * request are at one node. The window is part of it, so that a shorter one that is configured need not wait for the end of
 * a longer one; a workspace's id has no colon, which a key's may have.
 */
export function counterOf({ name, per, windowSeconds }: RatePolicy, { workspaceId, id }: KeyGrant): string {
  const counter = `postern:limit:{${workspaceId}}:${name}:${windowSeconds}`
  return per === 'key' ? `${counter}:${id}` : counter
}

/**
 * @param counts of all policies that apply, or at least of those that are exceeded
 * @returns null where the request is within all of them
 */
export function denialOfCounts(counts: readonly Count[]): Denial | null {
  const waitsMs = counts.filter(count => count.exceeded).map(count => count.resetMs)
  if (waitsMs.length === 0) return null
  return denied('rate_limited', { retryAfterSeconds: secondsUntil(Math.max(...waitsMs)) })
}

/** Whole seconds, rounded up, so that a client that waits as long does not retry too early. */
export function secondsUntil(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000))
}

/** What one of some gateways grants where they cannot count together; never nothing. */
export function partOf(requests: number, replicas: number): number {
  return Math.max(1, Math.floor(requests / replicas))
}
