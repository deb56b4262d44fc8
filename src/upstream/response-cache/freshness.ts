import type { UpstreamHeaders } from '../pool/exchange-parties.ts'
import { DIRECTIVE } from '../response-policy.ts'
import { fitsKey, variesByValidator } from './cache-key.ts'

/** Larger values count as this one (RFC 9111, section 1.2.2). */
const MAX_SECONDS = 2 ** 31
const SECONDS = /^\d+$/

/** Directives by lower-case name. A directive with two different values has the value `''`, which is invalid. */
export type Directives = ReadonlyMap<string, string>

/** When a response was requested and received. */
interface ResponseTimes {
  /** Monotonic. */
  readonly requestedAtMs: number
  readonly nowMs: number
  /** Wall clock, to compare with the upstream's dates. */
  readonly wallMs: number
}

export interface Freshness {
  /** Age of the response when it was received. */
  readonly ageMs: number
  /** Age at which the response becomes stale; 0 if each use needs a revalidation. */
  readonly lifetimeMs: number
}

/**
 * Whether and for how long a 200 may be stored: only as the upstream declares, never by a heuristic. This is a shared
 * cache (RFC 9111, section 3), so a `private` response is not stored. Section 3.5 requires nothing more, because every
 * request is authorized, cached or not. A response with a cookie belongs to one caller.
 * @returns null if it may not be stored, or could never be reused
 */
export function assessFreshness(headers: UpstreamHeaders, times: ResponseTimes): Freshness | null {
  const directives = parseDirectives(headers['cache-control'])
  const isExplicit = directives.size > 0 || headers['expires'] !== undefined
  if (!isExplicit || directives.has('no-store') || directives.has('private')) return null
  if (headers['set-cookie'] !== undefined || !fitsKey(headers) || variesByValidator(headers)) return null
  const ageMs = currentAgeMs(headers, times)
  const lifetimeMs = directives.has('no-cache') ? 0 : freshnessLifetimeMs(headers, directives, times)
  return lifetimeMs > ageMs || hasValidator(headers) ? { ageMs, lifetimeMs } : null
}

/** Without a validator, a stale response cannot be revalidated. */
export function hasValidator({ etag, 'last-modified': lastModified }: UpstreamHeaders): boolean {
  return typeof etag === 'string' || typeof lastModified === 'string'
}

/** Whether the client wants a younger or revalidated response (RFC 9111, section 5.2.1). */
export function wantsFresher(requested: Directives, entry: { ageMs: number; freshForMs: number }): boolean {
  if (requested.has('no-cache') || requested.has('no-store')) return true
  const maxAge = requested.get('max-age')
  if (maxAge !== undefined && entry.ageMs > parseSeconds(maxAge) * 1000) return true
  const minFresh = requested.get('min-fresh')
  return minFresh !== undefined && entry.freshForMs < parseSeconds(minFresh) * 1000
}

export function parseDirectives(field: string | string[] | undefined): Directives {
  const directives = new Map<string, string>()
  for (const [, rawName = '', quoted, token = ''] of String(field ?? '').matchAll(DIRECTIVE)) {
    const name = rawName.toLowerCase()
    const value = quoted ?? token
    const earlier = directives.get(name)
    directives.set(name, earlier === undefined || earlier === value ? value : '')
  }
  return directives
}

/** An invalid number of seconds counts as stale (RFC 9111, section 4.2.1). */
function freshnessLifetimeMs(
  headers: UpstreamHeaders,
  directives: Directives,
  { wallMs }: ResponseTimes,
): number {
  const seconds = directives.get('s-maxage') ?? directives.get('max-age')
  if (seconds !== undefined) return parseSeconds(seconds) * 1000
  const expiresMs = parseDate(headers['expires'])
  return expiresMs === null ? 0 : Math.max(0, expiresMs - (parseDate(headers['date']) ?? wallMs))
}

/** RFC 9111, section 4.2.3. A `Date` has whole seconds, so a difference below one second counts as 0. */
function currentAgeMs(headers: UpstreamHeaders, { requestedAtMs, nowMs, wallMs }: ResponseTimes): number {
  // Of several values the first one counts (section 5.1).
  const [age = ''] = String(headers['age'] ?? '').split(',')
  const ageFieldMs = parseSeconds(age.trim()) * 1000
  const apparentMs = Math.floor((wallMs - (parseDate(headers['date']) ?? wallMs)) / 1000) * 1000
  return Math.max(apparentMs, ageFieldMs + nowMs - requestedAtMs)
}

function parseSeconds(text: string): number {
  return SECONDS.test(text) ? Math.min(Number(text), MAX_SECONDS) : 0
}

/** The three forms of a date (RFC 9110, section 5.6.7). JavaScript also takes `3600` for one: the year. */
const DATE = /^[A-Z][a-z]{2,8},? [\w -]{6,11} \d\d:\d\d:\d\d (?:GMT|\d{4})$/

/** Milliseconds since the epoch; null for any other text than a date of HTTP. */
export function parseDate(field: string | string[] | undefined): number | null {
  if (typeof field !== 'string' || !DATE.test(field)) return null
  // In the form of C's asctime it names no zone, and means UTC.
  const ms = Date.parse(field.endsWith('GMT') ? field : `${field} GMT`)
  return Number.isNaN(ms) ? null : ms
}
