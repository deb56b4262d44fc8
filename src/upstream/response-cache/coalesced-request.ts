import type { Permit } from '../../domain/authorize.ts'
import { type BufferedResponse, bufferedResponse, toFieldList } from '../../http/buffered-response.ts'
import {
  COALESCING_RESULTS,
  type CounterHandle,
  handlesBy,
  type Metrics,
} from '../../observability/metrics/metrics.ts'
import type { ClientRequest, Deny } from '../client-request.ts'
import { abortResponse, type Forward } from '../forward.ts'
import type { BodySink, ExchangeHandler, UpstreamResponse } from '../pool/exchange-parties.ts'
import type { UpstreamFailure } from '../pool/failure.ts'
import {
  denyAfterFailure,
  denyRejected,
  type PassedResponse,
  RejectionSink,
  rejectionResponse,
  respond,
  respondBuffered,
} from '../respond.ts'
import type { PolicyDecision, ResponsePolicy } from '../response-policy.ts'
import type { Sending } from '../upstream.ts'
import { fitsKey } from './cache-key.ts'
import type { Freshness } from './freshness.ts'
import { type CachedResponse, type CacheUpdate, responseFor, toSharedBody } from './response-cache.ts'

/** A permitted request that waits for a coalesced request. */
export interface Waiter {
  readonly request: ClientRequest
  readonly permit: Permit
  /** When it began to wait, monotonic. */
  readonly sinceMs: number
  /** Whether the coalesced request was sent for this waiter. */
  readonly isFirst: boolean
}

type CoalescingCounts = Readonly<Record<(typeof COALESCING_RESULTS)[number], CounterHandle>>

/** Every series exists from the start, at zero. */
export function createCoalescingCounts(metrics: Metrics): CoalescingCounts {
  return handlesBy(COALESCING_RESULTS, result => metrics.coalescedRequests.handle({ result }))
}

export interface CoalescingParts {
  readonly policy: ResponsePolicy
  readonly deny: Deny
  /** Forwards the request of one waiter on its own. */
  readonly forward: Forward
  readonly counts: CoalescingCounts
  readonly nowMs: () => number
}

/**
 * One request to the upstream for all waiters with the same cache key. Waiters join until the response begins, so that
 * no client receives a response that is older than its request. Each receives the complete response or a denial. A
 * response that is too long to be buffered is streamed to the first waiter; the others are forwarded on their own.
 */
export class CoalescedRequest implements ExchangeHandler {
  readonly #parts: CoalescingParts
  readonly #update: CacheUpdate | null
  readonly #onClosed: (request: CoalescedRequest) => void
  readonly #waiters = new Set<Waiter>()
  #exchange: Sending | null = null
  #statusCode = 0

  /**
   * @param update null if responses are not cached
   * @param onClosed called when no further waiter may join
   */
  constructor(
    parts: CoalescingParts,
    update: CacheUpdate | null,
    onClosed: (request: CoalescedRequest) => void,
  ) {
    this.#parts = parts
    this.#update = update
    this.#onClosed = onClosed
  }

  join(waiter: Waiter): void {
    this.#waiters.add(waiter)
    waiter.request.response.on('close', () => this.#leave(waiter))
  }

  /** @param exchange aborted if all waiters disconnect */
  attach(exchange: Sending): void {
    this.#exchange = exchange
  }

  onHead(response: UpstreamResponse): BodySink | null {
    this.#statusCode = response.statusCode
    this.#close()
    try {
      return this.#onResponse(response)
    } catch (error) {
      this.#settleAll(({ request }) => abortResponse(request, error))
      return null
    }
  }

  onFailure(failure: UpstreamFailure): void {
    this.#close()
    this.#denyAll(failure)
  }

  /** Aborts the exchange if the last waiter disconnects. */
  #leave(waiter: Waiter): void {
    if (!this.#waiters.delete(waiter) || this.#waiters.size > 0) return
    this.#onClosed(this)
    this.#exchange?.abort()
  }

  #close(): void {
    this.#onClosed(this)
    const nowMs = this.#parts.nowMs()
    for (const { request, sinceMs } of this.#waiters) request.observation.upstreamWaitMs = nowMs - sinceMs
  }

  #onResponse(response: UpstreamResponse): BodySink | null {
    const { statusCode, headers } = response
    const freshness = this.#update?.assessFreshness(statusCode, headers) ?? null
    if (statusCode === 304 && this.#update?.isRevalidation) {
      this.#refresh(this.#update, response)
      return null
    }
    if (freshness === null && !this.#isForAll(response)) return this.#respondToFirst(response)
    const decision = this.#parts.policy(statusCode, headers)
    if (decision.kind === 'pass') return this.#passToAll(response, decision, freshness)
    if (decision.kind === 'reject') {
      return new RejectionSink(body => {
        this.#respondToAll(rejectionResponse(response, decision.retryAfter, body))
      })
    }
    this.#settleAll(({ request }) => denyRejected(request, response, decision, this.#parts.deny))
    return null
  }

  /** A 5xx is for all waiters: forwarded on their own, they would probably get the same. */
  #isForAll({ statusCode, headers }: UpstreamResponse): boolean {
    return this.#waiters.size > 1 && (statusCode >= 500 || fitsKey(headers))
  }

  #passToAll(
    response: UpstreamResponse,
    passed: PassedResponse,
    freshness: Freshness | null,
  ): BodySink | null {
    if (!passed.hasBody) {
      this.#respondToAll(bufferedResponse(response.statusCode, toSharedFields(passed.headers), null))
      return null
    }
    if (Number(response.headers['content-length'] ?? 0) > MAX_BUFFERED_BYTES) {
      return this.#respondToFirst(response, passed)
    }
    return new BufferingSink({
      complete: body => this.#respondWithBody(response, passed, freshness, body),
      tooLong: () => this.#respondToFirst(response, passed),
      fail: failure => this.#denyAll(failure),
    })
  }

  #respondWithBody(
    { statusCode, headers }: UpstreamResponse,
    passed: PassedResponse,
    freshness: Freshness | null,
    body: Buffer,
  ): void {
    if (this.#update !== null && freshness !== null) {
      this.#respondFromCache(this.#update.store(headers, passed.headers, body, freshness))
    } else {
      this.#respondToAll(bufferedResponse(statusCode, sharedFields(passed), toSharedBody(body)))
    }
  }

  /** After a 304 to our own validators. If it does not fit the cached response, each waiter is forwarded on its own. */
  #refresh(update: CacheUpdate, { headers }: UpstreamResponse): void {
    const cached = update.refresh(headers, this.#parts.policy)
    if (cached !== null) this.#respondFromCache(cached, 'revalidated')
    else for (const waiter of this.#takeWaiters()) this.#forwardAlone(waiter)
  }

  /** Each waiter may have sent validators of its own. */
  #respondFromCache(cached: CachedResponse, result?: 'revalidated'): void {
    this.#settleAll(({ request }) => {
      respondBuffered(request, responseFor(request.message.headers, cached, null))
    }, result)
  }

  /** Streams to the first waiter, whose disconnection then aborts the exchange. Forwards the others on their own. */
  #respondToFirst(response: UpstreamResponse, passed?: PassedResponse): BodySink | null {
    const [first, ...others] = this.#waiters
    for (const other of others) {
      this.#waiters.delete(other)
      this.#forwardAlone(other)
    }
    if (first === undefined) return null
    this.#record(first)
    const { policy, deny } = this.#parts
    const decision: PolicyDecision = passed ?? policy(response.statusCode, response.headers)
    return respond(first.request, response, decision, deny)
  }

  #forwardAlone(waiter: Waiter): void {
    const { counts, forward, nowMs } = this.#parts
    counts.unshared.inc()
    settleSafely(waiter, ({ request, permit, sinceMs }) => forward(request, permit, nowMs() - sinceMs))
  }

  #respondToAll(response: BufferedResponse): void {
    this.#settleAll(({ request }) => respondBuffered(request, response))
  }

  #denyAll(failure: UpstreamFailure | null): void {
    this.#settleAll(({ request }) => denyAfterFailure(request, failure, this.#parts.deny))
  }

  #settleAll(settle: (waiter: Waiter) => void, result?: 'revalidated'): void {
    for (const waiter of this.#takeWaiters()) {
      this.#record(waiter, result)
      settleSafely(waiter, settle)
    }
  }

  #takeWaiters(): Waiter[] {
    const waiters = [...this.#waiters]
    this.#waiters.clear()
    return waiters
  }

  #record({ request: { observation }, isFirst }: Waiter, revalidated?: 'revalidated'): void {
    if (isFirst) observation.trace?.forwarded(this.#statusCode, null)
    const result = revalidated ?? (isFirst ? 'upstream' : 'joined')
    if (result !== 'upstream') observation.shared = result
    this.#parts.counts[result].inc()
  }
}

/** The fields of a response for several clients, without the length, which the buffered body determines. */
function sharedFields({
  headers: { 'content-length': _length, ...headers },
}: PassedResponse): readonly string[] {
  return toSharedFields(headers)
}

function toSharedFields(headers: PassedResponse['headers']): readonly string[] {
  return toFieldList({ ...headers, 'x-content-type-options': 'nosniff' })
}

/** Keeps an error in responding to one waiter away from the other waiters and from undici's parser. */
function settleSafely(waiter: Waiter, settle: (waiter: Waiter) => void): void {
  try {
    settle(waiter)
  } catch (error) {
    abortResponse(waiter.request, error)
  }
}

/** A longer response is streamed to one client. */
const MAX_BUFFERED_BYTES = 256 * 1024

interface BufferingOutcomes {
  complete(body: Buffer): void
  /** @returns sink for the complete body; null if it is not needed */
  tooLong(): BodySink | null
  fail(failure: UpstreamFailure | null): void
}

/** Buffers a body up to `MAX_BUFFERED_BYTES`, so that no client receives an incomplete one. */
class BufferingSink implements BodySink {
  readonly #outcomes: BufferingOutcomes
  #chunks: Buffer[] = []
  #length = 0
  /** Receives a body that is too long to be buffered. */
  #next: BodySink | null = null

  constructor(outcomes: BufferingOutcomes) {
    this.#outcomes = outcomes
  }

  write(chunk: Buffer): 'continue' | 'pause' | 'discard' {
    if (this.#next !== null) return this.#next.write(chunk)
    this.#length += chunk.length
    this.#chunks.push(chunk)
    if (this.#length <= MAX_BUFFERED_BYTES) return 'continue'
    this.#next = this.#outcomes.tooLong()
    return this.#next?.write(this.#takeBody()) ?? 'discard'
  }

  end(): void {
    if (this.#next === null) this.#outcomes.complete(this.#takeBody())
    else this.#next.end()
  }

  fail(failure: UpstreamFailure | null): void {
    const next = this.#next ?? this.#outcomes
    next.fail(failure)
  }

  /** Copied: a chunk keeps the whole read alive, with the head, which the memory limit does not count. */
  #takeBody(): Buffer {
    const body = Buffer.allocUnsafeSlow(this.#length)
    let at = 0
    for (const chunk of this.#chunks) at += chunk.copy(body, at)
    this.#chunks = []
    return body
  }
}
