import { DIRECTIVE } from '../cache-control.ts'
import type { UpstreamHeaders } from '../response-policy.ts'
import { fitsKey, variesByValidator } from './cache-key.ts'

/** The most that RFC 9111, section 1.2.2, asks a cache to tell apart. */
const MAX_SECONDS = 2 ** 31
const SECONDS = /^\d+$/

/** Directives by lower-case name. One with two different values has the value `''`, which counts as none. */
export type Directives = ReadonlyMap<string, string>

/** When a response was requested and received. */
export interface Times {
  /** Monotonic, ms. */
  readonly requestedAtMs: number
  readonly nowMs: number
  /** The wall clock's, to compare with the upstream's own. */
  readonly wallMs: number
}

export interface Freshness {
  /** Its age when it was received. */
  readonly ageMs: number
  /** The age at which it is stale; 0 where each use needs a revalidation. */
  readonly lifetimeMs: number
}

/**
 * Whether and for how long a 200 may be stored: only as the upstream says, never by a heuristic. This is a shared cache
 * (RFC 9111, section 3), so a `private` response is not stored. Section 3.5 asks nothing more, because every request is
 * authorized, cached or not. A response with a cookie belongs to one caller.
 * @returns null where it may not be stored, or could never be reused
 */
export function freshnessOf(headers: UpstreamHeaders, times: Times): Freshness | null {
  const directives = directivesOf(headers['cache-control'])
  const isExplicit = directives.size > 0 || headers['expires'] !== undefined
  if (!isExplicit || directives.has('no-store') || directives.has('private')) return null
  if (headers['set-cookie'] !== undefined || !fitsKey(headers) || variesByValidator(headers)) return null
  const ageMs = ageOf(headers, times)
  const lifetimeMs = directives.has('no-cache') ? 0 : lifetimeOf(headers, directives, times)
  return lifetimeMs > ageMs || hasValidator(headers) ? { ageMs, lifetimeMs } : null
}

/** With neither, a stale response cannot be revalidated. */
export function hasValidator({ etag, 'last-modified': lastModified }: UpstreamHeaders): boolean {
  return typeof etag === 'string' || typeof lastModified === 'string'
}

/** Whether the client wants a younger or revalidated response (RFC 9111, section 5.2.1). */
export function wantsFresher(requested: Directives, entry: { ageMs: number; freshForMs: number }): boolean {
  if (requested.has('no-cache') || requested.has('no-store')) return true
  const maxAge = requested.get('max-age')
  if (maxAge !== undefined && entry.ageMs > secondsOf(maxAge) * 1000) return true
  const minFresh = requested.get('min-fresh')
  return minFresh !== undefined && entry.freshForMs < secondsOf(minFresh) * 1000
}

export function directivesOf(field: string | string[] | undefined): Directives {
  const directives = new Map<string, string>()
  for (const [, spelled = '', quoted, token = ''] of String(field ?? '').matchAll(DIRECTIVE)) {
    const name = spelled.toLowerCase()
    const value = quoted ?? token
    const known = directives.get(name)
    directives.set(name, known === undefined || known === value ? value : '')
  }
  return directives
}

/** An invalid number of seconds means stale (RFC 9111, section 4.2.1). */
function lifetimeOf(headers: UpstreamHeaders, directives: Directives, { wallMs }: Times): number {
  const seconds = directives.get('s-maxage') ?? directives.get('max-age')
  if (seconds !== undefined) return secondsOf(seconds) * 1000
  const expiresMs = dateOf(headers['expires'])
  return expiresMs === null ? 0 : Math.max(0, expiresMs - (dateOf(headers['date']) ?? wallMs))
}

/** RFC 9111, section 4.2.3. A date has whole seconds, so less than one second is no age. */
function ageOf(headers: UpstreamHeaders, { requestedAtMs, nowMs, wallMs }: Times): number {
  const age = headers['age']
  const ageFieldMs = typeof age === 'string' ? secondsOf(age) * 1000 : 0
  const apparentMs = Math.floor((wallMs - (dateOf(headers['date']) ?? wallMs)) / 1000) * 1000
  return Math.max(apparentMs, ageFieldMs + nowMs - requestedAtMs)
}

function secondsOf(text: string): number {
  return SECONDS.test(text) ? Math.min(Number(text), MAX_SECONDS) : 0
}

function dateOf(field: string | string[] | undefined): number | null {
  const ms = typeof field === 'string' ? Date.parse(field) : Number.NaN
  return Number.isNaN(ms) ? null : ms
}
