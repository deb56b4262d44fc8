import type { IncomingHttpHeaders } from 'node:http'
import {
  type BufferedResponse,
  type ByteString,
  NO_BYTES,
  toByteString,
} from '../../http/buffered-response.ts'
import type { UpstreamHeaders } from '../pool/exchange-parties.ts'
import type { Freshness } from './freshness.ts'

/** Alternating names and values, the form that Node's `writeHead` accepts. */
type FieldList = readonly string[]

/** A 200 of the upstream, prepared once for all clients. */
export interface CachedResponse {
  /** As the upstream sent them; a later 304 updates them. */
  readonly upstream: UpstreamHeaders
  readonly fields: FieldList
  /** Fields of a 304 in its place (RFC 9110, section 15.4.5). */
  readonly notModifiedFields: FieldList
  /** A small body is a string, which Node writes in one piece with the head. */
  readonly body: Buffer | ByteString
  readonly length: number
  /** When it was requested from the upstream, monotonic. */
  readonly requestedAtMs: number
  /** When its age was 0, monotonic. */
  readonly bornAtMs: number
  /** When it becomes stale, monotonic. */
  readonly freshUntilMs: number
  /** Estimated memory, in bytes. */
  readonly size: number
}

const MAX_TEXT_BYTES = 16 * 1024
/** Generous estimate for the objects and lists of one entry, without their strings. */
const OVERHEAD_BYTES = 1500
const CONTENT_FIELDS: ReadonlySet<string> = new Set(['content-type', 'content-length', 'content-encoding'])
const ENTITY_TAG = /(?:W\/)?("[^"]*")/g

export interface CacheableResponse {
  readonly upstream: UpstreamHeaders
  /** The fields that reach clients. */
  readonly passing: Readonly<Record<string, string>>
  readonly body: Buffer | ByteString
  readonly freshness: Freshness
  readonly requestedAtMs: number
  readonly nowMs: number
}

export function toCachedResponse({
  upstream,
  passing,
  body,
  freshness,
  requestedAtMs,
  nowMs,
}: CacheableResponse): CachedResponse {
  const length = body.length
  const head = { ...passing, 'x-content-type-options': 'nosniff', 'content-length': String(length) }
  const fields = Object.entries(head)
  const bornAtMs = nowMs - freshness.ageMs
  return {
    upstream,
    fields: fields.flat(),
    notModifiedFields: fields.filter(([name]) => !CONTENT_FIELDS.has(name)).flat(),
    body: typeof body === 'string' || length > MAX_TEXT_BYTES ? body : toByteString(body),
    length,
    requestedAtMs,
    bornAtMs,
    freshUntilMs: bornAtMs + freshness.lifetimeMs,
    size: length + 2 * textLength(upstream) + OVERHEAD_BYTES,
  }
}

/** The fields of a conditional request that revalidates it; empty if the upstream sent no validator. */
export function validatorsFor({ upstream }: CachedResponse): Record<string, string> {
  const { etag, 'last-modified': lastModified } = upstream
  return {
    ...(typeof etag === 'string' ? { 'if-none-match': etag } : {}),
    ...(typeof lastModified === 'string' ? { 'if-modified-since': lastModified } : {}),
  }
}

/** @returns headers updated by a 304 (RFC 9111, section 3.2); null if the 304 names another representation */
export function refreshedHeaders(
  cached: UpstreamHeaders,
  notModified: UpstreamHeaders,
): UpstreamHeaders | null {
  const tag = notModified['etag']
  if (tag !== undefined && cached['etag'] !== undefined && opaqueTag(tag) !== opaqueTag(cached['etag']))
    return null
  const updated = Object.entries(notModified).filter(([name]) => !CONTENT_FIELDS.has(name))
  // The stored age or date would make the response older than it is.
  const { age: _age, date: _date, ...rest } = cached
  return { ...rest, ...Object.fromEntries(updated) }
}

/**
 * @param ageSeconds null if the upstream has just sent or revalidated it
 * @returns the response for this client: a 304 if the client has the representation (RFC 9110, section 15.4.5)
 */
export function responseFor(
  client: IncomingHttpHeaders,
  cached: CachedResponse,
  ageSeconds: number | null,
): BufferedResponse {
  const isNotModified = matchesValidators(client, cached)
  const fields = isNotModified ? cached.notModifiedFields : cached.fields
  return {
    status: isNotModified ? 304 : 200,
    fields: ageSeconds === null ? fields : [...fields, 'age', String(ageSeconds)],
    lengthField: [],
    body: isNotModified ? NO_BYTES : cached.body,
  }
}

/** Whether the client's validators match the response (RFC 9110, section 13.2.2). */
export function matchesValidators(client: IncomingHttpHeaders, { upstream }: CachedResponse): boolean {
  const { etag, 'last-modified': lastModified } = upstream
  const tags = client['if-none-match']
  if (tags !== undefined) {
    if (tags.trim() === '*') return true
    return (
      typeof etag === 'string' &&
      (tags.match(ENTITY_TAG) ?? []).some(tag => opaqueTag(tag) === opaqueTag(etag))
    )
  }
  const since = client['if-modified-since']
  if (since === undefined || typeof lastModified !== 'string') return false
  return Date.parse(lastModified) <= Date.parse(since)
}

/** Weak comparison (RFC 9110, section 8.8.3.2). */
function opaqueTag(tag: string | string[]): string {
  return String(tag).replace(/^W\//, '')
}

function textLength(headers: UpstreamHeaders): number {
  return Object.entries(headers).reduce((sum, [name, value]) => sum + name.length + String(value).length, 0)
}
