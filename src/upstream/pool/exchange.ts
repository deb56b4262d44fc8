import type { Dispatcher } from 'undici'
import type { UpstreamClient } from './connection.ts'
import { Deadlines, type HasDeadline, NO_SLOT } from './deadlines.ts'
import type {
  BodySink,
  ExchangeHandler,
  ExchangeOwner,
  PreemptableExchange,
  UpstreamHeaders,
  UpstreamRequest,
  UpstreamResponse,
} from './exchange-parties.ts'
import {
  EXCHANGE_ABORTED,
  isConnectionLoss,
  isLengthMismatch,
  toUpstreamFailure,
  UpstreamFailure,
} from './failure.ts'

type Controller = Dispatcher.DispatchController

type State =
  /** Waits for a connection. */
  | { readonly kind: 'queued'; readonly handler: ExchangeHandler }
  /** Passed to undici; nothing has been sent. */
  | { readonly kind: 'connecting'; readonly handler: ExchangeHandler }
  /** The request has been sent; the head of the response is due. */
  | { readonly kind: 'waiting'; readonly handler: ExchangeHandler; readonly controller: Controller }
  | { readonly kind: 'streaming'; readonly sink: BodySink; readonly controller: Controller }
  /** The body is not needed. A short one is read to its end, so that the connection can be reused. */
  | { readonly kind: 'discarding'; readonly controller: Controller }
  /** The outcome has been reported or is not needed; undici may still use the connection. */
  | { readonly kind: 'aborted' }
  | { readonly kind: 'ended' }

const ABORTED: State = { kind: 'aborted' }
const ENDED: State = { kind: 'ended' }

/**
 * One request to the upstream and its response: a handler for undici, with deadlines and a single retry. It ends with
 * the response or when the client disconnects.
 */
export class UpstreamExchange implements Dispatcher.DispatchHandler, UpstreamResponse, HasDeadline {
  readonly request: UpstreamRequest
  statusCode = 0
  headers: UpstreamHeaders = {}
  waitedMs = 0
  retried = false
  slot = NO_SLOT

  #bodyBytes = 0
  #client: UpstreamClient | null = null
  readonly #owner: ExchangeOwner<UpstreamExchange>
  readonly #deadlines: Deadlines
  readonly #discardLimits = new DiscardLimits()
  #state: State

  /** @param waitedBeforeMs how long the client has already waited for a coalesced request */
  constructor(
    owner: ExchangeOwner<UpstreamExchange>,
    request: UpstreamRequest,
    handler: ExchangeHandler,
    waitedBeforeMs: number,
  ) {
    this.#owner = owner
    this.request = request
    this.#state = { kind: 'queued', handler }
    this.#deadlines = new Deadlines(owner.limits, owner.nowMs(), waitedBeforeMs)
  }

  get workspaceId(): string {
    return this.request.workspaceId
  }

  /** The client that carries the exchange; null before and after. */
  get client(): UpstreamClient | null {
    return this.#client
  }

  /** Passes the request to undici. @param lastOfConnection whether the connection closes after the response */
  sendOn(client: UpstreamClient, lastOfConnection = false): void {
    this.#client = client
    if (this.#state.kind === 'queued') this.#state = { kind: 'connecting', handler: this.#state.handler }
    client.send(this.request, this, lastOfConnection)
  }

  /** Call when the client disconnects. A body that is being discarded is still read to its end. */
  abort(): void {
    if (this.#state.kind !== 'discarding') this.#abandon()
  }

  resume(): void {
    if (this.#state.kind !== 'streaming' || !this.#deadlines.isPaused) return
    this.#deadlines.setPaused(false)
    this.#state.controller.resume()
  }

  checkDeadline(nowMs: number): void {
    const overdue = this.#deadlines.overdue(nowMs)
    if (overdue === 'client_stalled') {
      if (this.#state.kind === 'streaming') this.#state.sink.fail(null)
      this.#abandon()
    } else if (overdue !== null) {
      this.fail(new UpstreamFailure(overdue))
    }
  }

  fail(failure: UpstreamFailure): void {
    if ('controller' in this.#state) {
      this.#state.controller.abort(failure)
    } else if ('handler' in this.#state) {
      this.#owner.withdraw(this)
      this.#report(failure)
    }
  }

  /** @returns null if aborting the exchange would free no connection now */
  preemptionCandidate(nowMs: number): PreemptableExchange<UpstreamExchange> | null {
    if (!('controller' in this.#state)) return null
    const stage = this.#state.kind
    return { exchange: this, workspaceId: this.workspaceId, stage, ...this.#deadlines.stall(nowMs) }
  }

  /** Gives up the connection for another workspace. */
  preempt(): void {
    if (this.#state.kind === 'discarding') this.#abandon()
    else this.fail(new UpstreamFailure('preempted'))
  }

  onRequestStart(controller: Controller): void {
    // If this throws, undici skips the request and keeps the connection. An abort would close the connection.
    if (this.#state.kind !== 'connecting') throw EXCHANGE_ABORTED
    this.#state = { kind: 'waiting', handler: this.#state.handler, controller }
    this.#client?.connection.carry()
  }

  onResponseStart(controller: Controller, statusCode: number, headers: UpstreamHeaders): void {
    const isFinal = statusCode >= 200
    const isSound = isFinal
      ? isValidHead(statusCode, headers, countFieldLines(controller))
      : !this.#discardLimits.exceededByInterim(statusCode)
    if (!isSound) controller.abort(new UpstreamFailure('protocol'))
    else if (isFinal) this.#onHead(statusCode, headers)
    // The raw fields would retain the buffers that they were read into, until the exchange ends.
    controller.rawHeaders = null
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    this.#deadlines.progressed()
    this.#bodyBytes += chunk.length
    if (this.#state.kind === 'streaming') this.#deliver(this.#state, chunk)
    else if (this.#discardLimits.exceededByDiscarded(chunk.length)) this.#abandon()
  }

  onResponseEnd(): void {
    if (this.#state.kind === 'streaming') this.#state.sink.end()
    this.#end(false)
  }

  onResponseError(_controller: Controller, error: Error): void {
    const { kind } = this.#state
    if ((kind === 'connecting' || kind === 'waiting') && this.#isStale(error)) {
      this.#retry(this.#state)
      return
    }
    // undici takes a space after the length for a digit.
    if (kind === 'streaming' && isLengthMismatch(error) && isCompleteBody(this.#bodyBytes, this.headers)) {
      this.#state.sink.end()
    } else if (kind === 'connecting' || kind === 'waiting' || kind === 'streaming') {
      this.#report(toUpstreamFailure(error, kind))
    }
    this.#end(true)
  }

  #onHead(statusCode: number, headers: UpstreamHeaders): void {
    if (this.#state.kind !== 'waiting') return
    const { handler, controller } = this.#state
    const nowMs = this.#owner.nowMs()
    this.#deadlines.headReceived(nowMs)
    this.waitedMs = this.#deadlines.elapsedMs(nowMs)
    this.statusCode = statusCode
    this.headers = headers
    this.#owner.headReceived(this)
    const discarding: State = { kind: 'discarding', controller }
    this.#state = discarding
    const sink = handler.onHead(this)
    if (sink !== null && this.#state === discarding) this.#state = { kind: 'streaming', sink, controller }
  }

  #deliver(state: Extract<State, { kind: 'streaming' }>, chunk: Buffer): void {
    const { sink, controller } = state
    if (sink.writeAll !== undefined && isCompleteBody(chunk.length, this.headers)) {
      sink.writeAll(chunk)
      return
    }
    const next = sink.write(chunk)
    if (next === 'pause') {
      this.#deadlines.setPaused(true)
      controller.pause()
    } else if (next === 'discard' && this.#state === state) {
      this.#state = { kind: 'discarding', controller }
    }
  }

  /** Whether a reused connection was lost before a byte of this response: the upstream had already closed it. */
  #isStale(error: Error): boolean {
    return !this.retried && isConnectionLoss(error) && this.#client?.connection.isUntouched() === true
  }

  #retry({ handler }: { readonly handler: ExchangeHandler }): void {
    this.retried = true
    this.#state = { kind: 'connecting', handler }
    this.#owner.resend(this)
  }

  /** Before the head of the response the failure becomes a denial, after it the client's connection closes. */
  #report(failure: UpstreamFailure): void {
    const state = this.#state
    this.#state = ABORTED
    if (state.kind === 'streaming') {
      this.#owner.failed(this, failure)
      state.sink.fail(failure)
    } else if ('handler' in state) {
      this.waitedMs = this.#deadlines.elapsedMs(this.#owner.nowMs())
      this.#owner.failed(this, failure)
      state.handler.onFailure(failure, this.waitedMs)
    }
  }

  #abandon(): void {
    const state = this.#state
    if (state.kind === 'aborted' || state.kind === 'ended') return
    this.#state = ABORTED
    if ('controller' in state) state.controller.abort(EXCHANGE_ABORTED)
    else this.#owner.withdraw(this)
  }

  /** Runs once: if `sink.end()` throws, undici reports an error after it. @param broken whether the exchange failed */
  #end(broken: boolean): void {
    if (this.#state.kind === 'ended') return
    this.#state = ENDED
    this.#owner.released(this, broken)
    this.#client = null
  }
}

const MAX_FIELDS = 100
const MAX_INTERIM_RESPONSES = 10
/** Reading up to this much to its end is cheaper than a new connection. */
const MAX_DISCARDED_BYTES = 64 * 1024

/**
 * Whether the head of a final response defines the end of its body unambiguously (RFC 9112, section 6.3). A body that
 * ends with its connection is rejected, because a truncated one looks complete.
 * @param fieldLines result of `countFieldLines`
 */
export function isValidHead(statusCode: number, headers: UpstreamHeaders, fieldLines: number): boolean {
  const length = headers['content-length']
  const coding = headers['transfer-encoding']
  if (statusCode > 599 || fieldLines > MAX_FIELDS) return false
  if (length !== undefined && coding !== undefined) return false
  if (statusCode === 204 || statusCode === 304) return true
  if (coding === undefined) return typeof length === 'string'
  // Any coding except `chunked` alone is close-delimited, or one that the gateway does not decode.
  return typeof coding === 'string' && coding.toLowerCase() === 'chunked'
}

/** @returns number of field lines of the current head; repeated names count each time */
export function countFieldLines({ rawHeaders }: Dispatcher.DispatchController): number {
  return Array.isArray(rawHeaders) ? rawHeaders.length / 2 : 0
}

/** Whether so many bytes are all that the head declares. @param headers of a sound head */
export function isCompleteBody(bytes: number, headers: UpstreamHeaders): boolean {
  return Number(headers['content-length']) === bytes
}

/** Limits what an exchange may receive beside the needed response: interim responses and discarded bytes. */
export class DiscardLimits {
  #interimResponses = 0
  #discardedBytes = 0

  /** Counts an interim response. @returns whether it is one too many, or a 101, which the gateway never requests */
  exceededByInterim(statusCode: number): boolean {
    this.#interimResponses += 1
    return statusCode === 101 || this.#interimResponses > MAX_INTERIM_RESPONSES
  }

  /** Counts bytes of a discarded body. @returns whether the rest is not worth waiting for */
  exceededByDiscarded(bytes: number): boolean {
    this.#discardedBytes += bytes
    return this.#discardedBytes > MAX_DISCARDED_BYTES
  }
}
