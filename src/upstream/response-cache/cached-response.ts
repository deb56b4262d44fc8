import type { IncomingHttpHeaders } from 'node:http'
import { type ByteString, bytesOf } from '../../http/byte-string.ts'
import type { UpstreamHeaders } from '../response-policy.ts'
import type { Freshness } from './freshness.ts'

/** Names and values in turn, as Node writes them out. */
export type FieldList = readonly string[]

/** A 200 of the upstream, made ready once for all who are given it. */
export interface KeptAnswer {
  /** As the upstream said them: what a later 304 is laid over. */
  readonly upstream: UpstreamHeaders
  readonly fields: FieldList
  /** For the 304 in its place (RFC 9110, section 15.4.5). */
  readonly fieldsUnchanged: FieldList
  /** A small one is a text, which goes out in one piece with its head. */
  readonly body: Buffer | ByteString
  readonly length: number
  /** Monotonic: when the upstream was asked for it. */
  readonly askedAtMs: number
  /** Monotonic: when it was of age 0. */
  readonly bornAtMs: number
  /** Monotonic. */
  readonly freshUntilMs: number
  /** About what it takes of memory, bytes. */
  readonly size: number
}

const MAX_TEXT_BYTES = 16 * 1024
/** Of the answer, its lists and its place in the cache, beside their texts: a generous guess. */
const OVERHEAD_BYTES = 1500
const OF_THE_BODY: ReadonlySet<string> = new Set(['content-type', 'content-length', 'content-encoding'])
const ENTITY_TAG = /(?:W\/)?("[^"]*")/g

export interface Keepable {
  readonly upstream: UpstreamHeaders
  /** What of them goes on to clients. */
  readonly passing: Readonly<Record<string, string>>
  readonly body: Buffer | ByteString
  readonly freshness: Freshness
  readonly askedAtMs: number
  readonly nowMs: number
}

export function keep({ upstream, passing, body, freshness, askedAtMs, nowMs }: Keepable): KeptAnswer {
  const length = body.length
  const head = { ...passing, 'x-content-type-options': 'nosniff', 'content-length': String(length) }
  const fields = Object.entries(head)
  const bornAtMs = nowMs - freshness.ageMs
  return {
    upstream,
    fields: fields.flat(),
    fieldsUnchanged: fields.filter(([name]) => !OF_THE_BODY.has(name)).flat(),
    body: typeof body === 'string' || length > MAX_TEXT_BYTES ? body : bytesOf(body),
    length,
    askedAtMs,
    bornAtMs,
    freshUntilMs: bornAtMs + freshness.lifetimeMs,
    size: length + 2 * textLength(upstream) + OVERHEAD_BYTES,
  }
}

/** With which the upstream is asked whether it is still the answer; none where it never said how. */
export function validatorsFor({ upstream }: KeptAnswer): Record<string, string> {
  const { etag, 'last-modified': lastModified } = upstream
  return {
    ...(typeof etag === 'string' ? { 'if-none-match': etag } : {}),
    ...(typeof lastModified === 'string' ? { 'if-modified-since': lastModified } : {}),
  }
}

/** What the upstream says of it after a 304 (RFC 9111, section 3.2); null where that speaks of another answer. */
export function refreshedHeaders(kept: UpstreamHeaders, unchanged: UpstreamHeaders): UpstreamHeaders | null {
  const tag = unchanged['etag']
  if (tag !== undefined && kept['etag'] !== undefined && opaque(tag) !== opaque(kept['etag'])) return null
  const said = Object.entries(unchanged).filter(([name]) => !OF_THE_BODY.has(name))
  // An age or date of before would make it older than it was found to be.
  const { age: _age, date: _date, ...rest } = kept
  return { ...rest, ...Object.fromEntries(said) }
}

/** Whether a client has it already (RFC 9110, section 13.2.2). */
export function isKnownTo(client: IncomingHttpHeaders, { upstream }: KeptAnswer): boolean {
  const { etag, 'last-modified': lastModified } = upstream
  const known = client['if-none-match']
  if (known !== undefined) {
    if (known.trim() === '*') return true
    return (
      typeof etag === 'string' && (known.match(ENTITY_TAG) ?? []).some(tag => opaque(tag) === opaque(etag))
    )
  }
  const since = client['if-modified-since']
  if (since === undefined || typeof lastModified !== 'string') return false
  return Date.parse(lastModified) <= Date.parse(since)
}

/** Weak comparison (RFC 9110, section 8.8.3.2). */
function opaque(tag: string | string[]): string {
  return String(tag).replace(/^W\//, '')
}

function textLength(headers: UpstreamHeaders): number {
  return Object.entries(headers).reduce((sum, [name, value]) => sum + name.length + String(value).length, 0)
}
