import { DIRECTIVE } from '../cache-control.ts'
import type { UpstreamHeaders } from '../response-policy.ts'
import { isForAll, variesByValidator } from './cache-key.ts'

/** More than any clock of ours will run, and far from what a number can hold. */
const MAX_SECONDS = 2 ** 31
const SECONDS = /^\d+$/

/** Directives by lower-case name; of one that came twice with two values the value is `''`, which means nothing. */
export type Directives = ReadonlyMap<string, string>

/** When an answer was asked for and came. */
export interface Times {
  /** Monotonic, ms. */
  readonly askedAtMs: number
  readonly nowMs: number
  /** The wall clock's, to compare with the upstream's own. */
  readonly wallMs: number
}

export interface Freshness {
  /** How old it was when it came. */
  readonly ageMs: number
  /** At which age it is stale; 0 where it must be validated each time. */
  readonly lifetimeMs: number
}

/**
 * Whether the upstream lets a 200 be kept, and for how long: by its own word only, never by a guess. Ours is a shared cache (RFC
 * 9111, section 3): several keys of a workspace are several callers, so `private` is not kept. That each caller of it is
 * authorised, whether kept or not, is why section 3.5 asks nothing more. A cookie speaks of one caller.
 * @returns null where it may not be kept, or never used again
 */
export function freshnessOf(headers: UpstreamHeaders, times: Times): Freshness | null {
  const directives = directivesOf(headers['cache-control'])
  const spoken = directives.size > 0 || headers['expires'] !== undefined
  if (!spoken || directives.has('no-store') || directives.has('private')) return null
  if (headers['set-cookie'] !== undefined || !isForAll(headers) || variesByValidator(headers)) return null
  const ageMs = ageOf(headers, times)
  const lifetimeMs = directives.has('no-cache') ? 0 : lifetimeOf(headers, directives, times)
  return lifetimeMs > ageMs || hasValidator(headers) ? { ageMs, lifetimeMs } : null
}

/** With neither there is no way to find out whether a stale answer is still the answer. */
export function hasValidator({ etag, 'last-modified': lastModified }: UpstreamHeaders): boolean {
  return typeof etag === 'string' || typeof lastModified === 'string'
}

/** A client that wants an answer younger than the kept one, or one that was just validated (RFC 9111, section 5.2.1). */
export function wantsFresher(requested: Directives, entry: { ageMs: number; freshForMs: number }): boolean {
  if (requested.has('no-cache') || requested.has('no-store')) return true
  const maxAge = requested.get('max-age')
  if (maxAge !== undefined && entry.ageMs > secondsOf(maxAge) * 1000) return true
  const minFresh = requested.get('min-fresh')
  return minFresh !== undefined && entry.freshForMs < secondsOf(minFresh) * 1000
}

export function directivesOf(said: string | string[] | undefined): Directives {
  const directives = new Map<string, string>()
  for (const [, spelled = '', quoted, token = ''] of String(said ?? '').matchAll(DIRECTIVE)) {
    const name = spelled.toLowerCase()
    const value = quoted ?? token
    const known = directives.get(name)
    directives.set(name, known === undefined || known === value ? value : '')
  }
  return directives
}

/** What is no number of seconds means stale (RFC 9111, section 4.2.1). */
function lifetimeOf(headers: UpstreamHeaders, directives: Directives, { wallMs }: Times): number {
  const seconds = directives.get('s-maxage') ?? directives.get('max-age')
  if (seconds !== undefined) return secondsOf(seconds) * 1000
  const expiresMs = dateOf(headers['expires'])
  return expiresMs === null ? 0 : Math.max(0, expiresMs - (dateOf(headers['date']) ?? wallMs))
}

/** RFC 9111, section 4.2.3. A date is in whole seconds, so what is less than one is no age. */
function ageOf(headers: UpstreamHeaders, { askedAtMs, nowMs, wallMs }: Times): number {
  const said = headers['age']
  const saidMs = typeof said === 'string' ? secondsOf(said) * 1000 : 0
  const apparentMs = Math.floor((wallMs - (dateOf(headers['date']) ?? wallMs)) / 1000) * 1000
  return Math.max(apparentMs, saidMs + nowMs - askedAtMs)
}

function secondsOf(text: string): number {
  return SECONDS.test(text) ? Math.min(Number(text), MAX_SECONDS) : 0
}

function dateOf(said: string | string[] | undefined): number | null {
  const ms = typeof said === 'string' ? Date.parse(said) : Number.NaN
  return Number.isNaN(ms) ? null : ms
}
