import type { Dispatcher } from 'undici'
import type { Bounded } from './deadline-clock.ts'
import type { Connection, ConnectionBound, UpstreamRequestOptions } from './upstream-connection.ts'
import { isConnectionLoss, toUpstreamFailure, UpstreamFailure } from './upstream-failure.ts'
import { isSoundHead } from './upstream-framing.ts'
import type { UpstreamHeaders } from './upstream-response.ts'

/** Where the bytes of a body go. */
export interface BodySink {
  /** @returns false where no more is wanted until `exchange.drained()` */
  write(chunk: Buffer): boolean
  end(): void
  /** The body broke off: what was delivered must not look whole. */
  cut(): void
}

/**
 * Hears once of the head of the answer, or that there will be none; never after the client has left. The form is
 * reply-from's; the headers in it are empty, because reply-from would copy them before anybody has judged them.
 */
export type OnAnswer = (failure: UpstreamFailure | null, answer?: UpstreamAnswer) => void

export interface UpstreamAnswer {
  readonly statusCode: number
  readonly headers: Record<string, string>
  readonly body: UpstreamExchange
}

export interface ExchangeLimits {
  readonly headersTimeoutMs: number
  readonly bodyIdleTimeoutMs: number
  readonly totalTimeoutMs: number
  /** How long a client may take nothing of an answer that waits for it. */
  readonly clientStallMs: number
}

/** What an exchange needs of the dispatcher. */
export interface ExchangeOwner {
  readonly limits: ExchangeLimits
  nowMs(): number
  /** Where the exchange still waits for its turn it never gets one. */
  withdraw(exchange: UpstreamExchange): void
  resend(exchange: UpstreamExchange): void
  answered(exchange: UpstreamExchange): void
  failed(exchange: UpstreamExchange, failure: UpstreamFailure): void
  /** Nothing more will come: the place in the pool is free. */
  released(exchange: UpstreamExchange): void
}

const MAX_INTERIM_ANSWERS = 10
/** Reading a little to its end is cheaper than a new connection; more than this is not. */
const MAX_DISCARDED_BYTES = 64 * 1024
/** Never seen by anybody: what undici is told when nobody wants the answer any more. */
const UNWANTED = new Error('The answer is no longer wanted')

/** Of whom is anything still expected: the one who reads, the one who only clears the connection, or nobody. */
type Interest = 'answer' | 'discard' | 'none'

/**
 * One request to the upstream and its answer: undici's handler, the owner of its deadlines and of its single retry.
 * It outlives neither the answer nor the client: whatever ends first ends it.
 */
export class UpstreamExchange implements Dispatcher.DispatchHandler, Bounded, ConnectionBound {
  readonly options: UpstreamRequestOptions
  connection: Connection | null = null
  statusCode = 0
  headers: UpstreamHeaders = {}
  /** From asking to the head of the answer, waiting for a connection included; or until it failed. */
  headersAfterMs = 0
  retried = false

  readonly #owner: ExchangeOwner
  readonly #askedAtMs: number
  #onAnswer: OnAnswer | null = null
  #sink: BodySink | null = null
  #controller: Dispatcher.DispatchController | null = null
  #interest: Interest = 'answer'
  #answered = false
  #paused = false
  #progressed = false
  #progressAtMs = 0
  #interimAnswers = 0
  #discardedBytes = 0

  constructor(owner: ExchangeOwner, path: string, headers: Record<string, string>) {
    this.#owner = owner
    this.#askedAtMs = owner.nowMs()
    this.options = { path, method: 'GET', headers, exchange: this }
  }

  begin(onAnswer: OnAnswer): void {
    this.#onAnswer = onAnswer
  }

  /** Where the body goes; to be said while the head is being handled. */
  deliverTo(sink: BodySink): void {
    this.#sink = sink
  }

  /** Nobody wants the body: it is read to its end where that is near, so that the connection can be used again. */
  discard(): void {
    if (this.#interest !== 'answer') return
    this.#interest = 'discard'
    this.#sink = null
    this.drained()
  }

  /** The sink takes bytes again. */
  drained(): void {
    this.#progressed = true
    if (!this.#paused) return
    this.#paused = false
    this.#controller?.resume()
  }

  /** The client has left. What was already answered may still be read to its end. */
  abort(): void {
    if (this.#interest === 'answer') this.#abandon()
  }

  /** reply-from's name for it. */
  destroy(): void {
    this.abort()
  }

  checkDeadline(nowMs: number): void {
    if (this.#interest === 'none') return
    if (this.#progressed) this.#noteProgress(nowMs)
    const { limits } = this.#owner
    const idleMs = nowMs - this.#progressAtMs
    if (nowMs - this.#askedAtMs >= limits.totalTimeoutMs) this.fail(new UpstreamFailure('total_timeout'))
    else if (!this.#answered) this.#checkHeaders(nowMs, limits.headersTimeoutMs)
    else if (this.#paused) this.#checkClient(idleMs, limits.clientStallMs)
    else if (idleMs >= limits.bodyIdleTimeoutMs) this.fail(new UpstreamFailure('body_timeout'))
  }

  fail(failure: UpstreamFailure): void {
    if (this.#controller !== null) {
      this.#controller.abort(failure)
    } else {
      this.#owner.withdraw(this)
      this.#report(failure)
    }
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // Thrown, the request is skipped and the connection kept; aborted, undici would close the connection.
    if (this.#interest === 'none') throw UNWANTED
    this.#controller = controller
    this.connection?.carry()
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    statusCode: number,
    headers: UpstreamHeaders,
  ): void {
    if (statusCode < 200) this.#onInterimAnswer(controller, statusCode)
    else if (isSoundHead(statusCode, headers, fieldLines(controller))) this.#onHead(statusCode, headers)
    else controller.abort(new UpstreamFailure('protocol'))
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#progressed = true
    if (this.#interest === 'discard') {
      this.#onDiscarded(chunk)
    } else if (this.#sink?.write(chunk) === false) {
      this.#paused = true
      controller.pause()
    }
  }

  onResponseEnd(): void {
    if (this.#interest === 'answer') this.#sink?.end()
    this.#end()
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#isStale(error)) {
      this.#retry()
    } else {
      if (this.#interest === 'answer') this.#report(toUpstreamFailure(error, this.#phase()))
      this.#end()
    }
  }

  #onHead(statusCode: number, headers: UpstreamHeaders): void {
    this.#answered = true
    this.#noteProgress(this.#owner.nowMs())
    this.headersAfterMs = this.#progressAtMs - this.#askedAtMs
    this.statusCode = statusCode
    this.headers = headers
    this.#owner.answered(this)
    this.#tell(null)
  }

  #onInterimAnswer(controller: Dispatcher.DispatchController, statusCode: number): void {
    this.#interimAnswers += 1
    if (statusCode !== 101 && this.#interimAnswers <= MAX_INTERIM_ANSWERS) return
    controller.abort(new UpstreamFailure('protocol'))
  }

  #onDiscarded(chunk: Buffer): void {
    this.#discardedBytes += chunk.length
    if (this.#discardedBytes > MAX_DISCARDED_BYTES) this.#abandon()
  }

  #checkHeaders(nowMs: number, timeoutMs: number): void {
    if (nowMs - this.#askedAtMs >= timeoutMs) this.fail(new UpstreamFailure('headers_timeout'))
  }

  /** No fault of the upstream's, so no failure is counted. */
  #checkClient(idleMs: number, stallMs: number): void {
    if (idleMs < stallMs) return
    this.#sink?.cut()
    this.#abandon()
  }

  #noteProgress(nowMs: number): void {
    this.#progressed = false
    this.#progressAtMs = nowMs
  }

  /** A connection that served before and went away without a byte of this answer: the request was never looked at. */
  #isStale(error: Error): boolean {
    return (
      this.#interest === 'answer' &&
      !this.retried &&
      isConnectionLoss(error) &&
      this.connection?.isUntouched() === true
    )
  }

  #retry(): void {
    this.retried = true
    this.#controller = null
    this.#owner.resend(this)
  }

  #phase() {
    if (this.#answered) return 'streaming'
    return this.#controller === null ? 'connecting' : 'waiting'
  }

  /** The failure reaches the client: as a refusal before the head of the answer, as a broken connection after it. */
  #report(failure: UpstreamFailure): void {
    const sink = this.#sink
    if (!this.#answered) this.headersAfterMs = this.#owner.nowMs() - this.#askedAtMs
    this.#interest = 'none'
    this.#owner.failed(this, failure)
    if (this.#answered) sink?.cut()
    else this.#tell(failure)
    this.#unlink()
  }

  #abandon(): void {
    this.#interest = 'none'
    this.#unlink()
    if (this.#controller !== null) this.#controller.abort(UNWANTED)
    else this.#owner.withdraw(this)
  }

  #tell(failure: UpstreamFailure | null): void {
    const onAnswer = this.#onAnswer
    this.#onAnswer = null
    if (failure === null) onAnswer?.(null, { statusCode: this.statusCode, headers: {}, body: this })
    else onAnswer?.(failure)
  }

  #end(): void {
    this.#interest = 'none'
    this.#controller = null
    this.#unlink()
    this.#owner.released(this)
  }

  /** What is finished must keep nothing alive: on a kept connection it would age with it. */
  #unlink(): void {
    this.#onAnswer = null
    this.#sink = null
    this.connection = null
  }
}

function fieldLines(controller: Dispatcher.DispatchController): number {
  return Array.isArray(controller.rawHeaders) ? controller.rawHeaders.length / 2 : 0
}
