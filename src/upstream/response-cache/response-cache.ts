import type { IncomingHttpHeaders } from 'node:http'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../../domain/clock.ts'
import {
  type BufferedResponse,
  type ByteString,
  NO_BYTES,
  toByteString,
} from '../../http/buffered-response.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import type { UpstreamHeaders } from '../pool/exchange-parties.ts'
import type { ResponsePolicy } from '../response-policy.ts'
import { assessFreshness, type Freshness, parseDate } from './freshness.ts'

/** Largest share of the capacity that one workspace may use. */
const WORKSPACE_SHARE = 1 / 4
/** Estimated memory of a workspace's list, without its entries. */
const WORKSPACE_BYTES = 2000

/**
 * Cached responses by workspace, then by cache key, so that a lookup for one workspace cannot find another's. Bounded in
 * bytes: the least recently used entry of the least recently used workspace goes first.
 */
export class ResponseCache {
  /** Increases with `clear()`, so that responses requested before it are not stored after it. */
  epoch = 0
  readonly #maxBytes: number
  readonly #workspaces: LRUCache<string, LRUCache<string, CachedResponse>>
  #bytes = 0

  constructor(maxBytes: number, metrics: Metrics) {
    this.#maxBytes = maxBytes
    this.#workspaces = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: () => WORKSPACE_BYTES,
      dispose: responses => responses.clear(),
    })
    metrics.responseCacheBytes.onCollect(gauge => gauge.set(this.bytes))
    metrics.responseCacheCapacity.set(maxBytes)
  }

  get bytes(): number {
    return this.#bytes + this.#workspaces.size * WORKSPACE_BYTES
  }

  find(workspaceId: string, key: string): CachedResponse | undefined {
    return this.#workspaces.get(workspaceId)?.get(key)
  }

  store(workspaceId: string, key: string, response: CachedResponse): void {
    const size = response.size + key.length
    if (size > this.#maxBytes * WORKSPACE_SHARE) {
      this.drop(workspaceId, key)
      return
    }
    const responses = this.#workspaces.get(workspaceId) ?? this.#addWorkspace(workspaceId)
    this.#bytes += size
    responses.set(key, response, { size })
    while (this.bytes > this.#maxBytes) this.#dropOldest()
  }

  drop(workspaceId: string, key: string): void {
    const responses = this.#workspaces.get(workspaceId)
    responses?.delete(key)
    if (responses?.size === 0) this.#workspaces.delete(workspaceId)
  }

  clear(): void {
    this.epoch++
    this.#workspaces.clear()
  }

  #addWorkspace(workspaceId: string): LRUCache<string, CachedResponse> {
    const responses = new LRUCache<string, CachedResponse>({
      maxSize: Math.floor(this.#maxBytes * WORKSPACE_SHARE),
      dispose: ({ size }, key) => {
        this.#bytes -= size + key.length
      },
    })
    this.#workspaces.set(workspaceId, responses)
    return responses
  }

  #dropOldest(): void {
    const { value: workspaceId } = this.#workspaces.rkeys().next()
    if (workspaceId === undefined) return
    const responses = this.#workspaces.peek(workspaceId)
    responses?.pop()
    if (responses?.size === 0) this.#workspaces.delete(workspaceId)
  }
}

interface CacheEntry {
  readonly workspaceId: string
  readonly key: string
  /** The cached response to revalidate, if there is one. */
  readonly stale: CachedResponse | undefined
}

/** Applies one response of the upstream to its cache entry. */
export class CacheUpdate {
  readonly #cache: ResponseCache
  readonly #clock: Clock
  readonly #entry: CacheEntry
  readonly #requestedAtMs: number
  readonly #epoch: number

  constructor(cache: ResponseCache, clock: Clock, entry: CacheEntry) {
    this.#cache = cache
    this.#clock = clock
    this.#entry = entry
    this.#requestedAtMs = clock.monotonicMs()
    this.#epoch = cache.epoch
  }

  /** @returns null if the response may not be stored; most of these responses drop the entry */
  assessFreshness(statusCode: number, headers: UpstreamHeaders): Freshness | null {
    const freshness = statusCode === 200 ? this.#assessFreshness(headers) : null
    // A 5xx or a 304 does not mean that the entry is out of date.
    if (freshness === null && statusCode < 500 && statusCode !== 304) this.#drop()
    return freshness
  }

  store(
    upstream: UpstreamHeaders,
    passing: Readonly<Record<string, string>>,
    body: Buffer | ByteString,
    freshness: Freshness,
  ): CachedResponse {
    const nowMs = this.#clock.monotonicMs()
    const requestedAtMs = this.#requestedAtMs
    const response = toCachedResponse({ upstream, passing, body, freshness, requestedAtMs, nowMs })
    const { workspaceId, key } = this.#entry
    // The response that was requested last is the newest, even if it arrives first.
    const hasNewer = (this.#cache.find(workspaceId, key)?.requestedAtMs ?? 0) > requestedAtMs
    if (!hasNewer && this.#epoch === this.#cache.epoch) this.#cache.store(workspaceId, key, response)
    return response
  }

  /** Refreshes the entry after a 304. @returns null if the 304 does not fit the entry, which is then dropped */
  refresh(notModified: UpstreamHeaders, policy: ResponsePolicy): CachedResponse | null {
    const { stale } = this.#entry
    const headers = stale === undefined ? null : refreshedHeaders(stale.upstream, notModified)
    const freshness = headers === null ? null : this.#assessFreshness(headers)
    const decision = headers === null ? null : policy(200, headers)
    if (stale === undefined || headers === null || freshness === null || decision?.kind !== 'pass') {
      this.#drop()
      return null
    }
    return this.store(headers, decision.headers, stale.body, freshness)
  }

  get isRevalidation(): boolean {
    return this.#entry.stale !== undefined
  }

  #assessFreshness(headers: UpstreamHeaders): Freshness | null {
    const nowMs = this.#clock.monotonicMs()
    return assessFreshness(headers, {
      requestedAtMs: this.#requestedAtMs,
      nowMs,
      wallMs: this.#clock.wallMs(),
    })
  }

  #drop(): void {
    this.#cache.drop(this.#entry.workspaceId, this.#entry.key)
  }
}

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
  /** `Age` of the upstream, if it reaches clients: the response came from a cache. */
  readonly receivedAge: string | undefined
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
  const { age: receivedAge, ...others } = passing
  const head = { ...others, 'x-content-type-options': 'nosniff', 'content-length': String(length) }
  const fields = Object.entries(head)
  const bornAtMs = nowMs - freshness.ageMs
  return {
    upstream,
    fields: fields.flat(),
    notModifiedFields: fields.filter(([name]) => !CONTENT_FIELDS.has(name)).flat(),
    body: typeof body === 'string' ? body : toSharedBody(body),
    length,
    receivedAge,
    requestedAtMs,
    bornAtMs,
    freshUntilMs: bornAtMs + freshness.lifetimeMs,
    size: length + 2 * textLength(upstream) + OVERHEAD_BYTES,
  }
}

/** A short body is a string, which Node copies for each response and writes with its head. Of a longer one there is one copy for all. */
export function toSharedBody(body: Buffer): Buffer | ByteString {
  return body.length > MAX_TEXT_BYTES ? body : toByteString(body)
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
  const age = ageSeconds === null ? cached.receivedAge : String(ageSeconds)
  return {
    status: isNotModified ? 304 : 200,
    fields: age === undefined ? fields : [...fields, 'age', age],
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
  const [changedMs, sinceMs] = [parseDate(lastModified), parseDate(client['if-modified-since'])]
  return changedMs !== null && sinceMs !== null && changedMs <= sinceMs
}

/** Weak comparison (RFC 9110, section 8.8.3.2). */
function opaqueTag(tag: string | string[]): string {
  return String(tag).replace(/^W\//, '')
}

function textLength(headers: UpstreamHeaders): number {
  return Object.entries(headers).reduce((sum, [name, value]) => sum + name.length + String(value).length, 0)
}
