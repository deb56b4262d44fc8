import type { Dispatcher } from 'undici'
import { isConnectionLoss, toUpstreamFailure, UNWANTED, UpstreamFailure } from '../failure.ts'
import type { UpstreamHeaders } from '../response-policy.ts'
import type { Connection, UpstreamClient, UpstreamRequestOptions } from './connection.ts'
import { type Bounded, NOWHERE } from './deadline-sweeper.ts'
import { Deadlines } from './deadlines.ts'
import type {
  BodySink,
  EndableExchange,
  ExchangeOwner,
  Interest,
  OnAnswer,
  UpstreamRequest,
} from './exchange-parties.ts'
import { fieldLinesOf, isSoundHead, isWholeBody, Surplus } from './framing.ts'
import { ownCopyOf } from './upstream-socket.ts'

/**
 * One request to the upstream and its answer: undici's handler, the owner of its deadlines and of its single retry.
 * It outlives neither the answer nor the client: whatever ends first ends it.
 */
export class UpstreamExchange implements Dispatcher.DispatchHandler, Bounded {
  readonly options: UpstreamRequestOptions
  readonly workspaceId: string
  connection: Connection | null = null
  /** Who carries it, and is to be given back. */
  client: UpstreamClient | null = null
  /** Whether it failed there. */
  broken = false
  statusCode = 0
  headers: UpstreamHeaders = {}
  /** From asking to the head of the answer, waiting for a connection included; or until it failed. */
  headersAfterMs = 0
  retried = false
  place = NOWHERE

  readonly #owner: ExchangeOwner
  readonly #deadlines: Deadlines
  #onAnswer: OnAnswer | null = null
  #sink: BodySink | null = null
  #controller: Dispatcher.DispatchController | null = null
  #interest: Interest = 'answer'
  #answered = false
  #ended = false
  readonly #surplus = new Surplus()

  constructor(owner: ExchangeOwner, { workspaceId, path, headers, waitedBeforeMs = 0 }: UpstreamRequest) {
    this.#owner = owner
    this.workspaceId = workspaceId
    this.#deadlines = new Deadlines(owner.limits, owner.nowMs(), waitedBeforeMs)
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
    if (!this.#deadlines.isHeld) return
    this.#deadlines.hold(false)
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
    const overdue = this.#interest === 'none' ? null : this.#deadlines.overdue(nowMs)
    if (overdue === 'client_stalled') {
      this.#sink?.cut(null)
      this.#abandon()
    } else if (overdue !== null) {
      this.fail(new UpstreamFailure(overdue))
    }
  }

  fail(failure: UpstreamFailure): void {
    if (this.#controller !== null) {
      this.#controller.abort(failure)
    } else {
      this.#owner.withdraw(this)
      this.#report(failure)
    }
  }

  /** @returns null where ending it would free no connection now */
  standing(nowMs: number): EndableExchange | null {
    const phase = this.#phase()
    if (this.#interest === 'none' || phase === 'connecting') return null
    const stage = this.#interest === 'discard' ? 'discarding' : phase
    return { exchange: this, workspaceId: this.workspaceId, stage, ...this.#deadlines.standing(nowMs) }
  }

  /** Its connection is needed for another workspace. */
  preempt(): void {
    if (this.#interest === 'discard') this.#abandon()
    else this.fail(new UpstreamFailure('preempted'))
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
    const isFinal = statusCode >= 200
    const isSound = isFinal
      ? isSoundHead(statusCode, headers, fieldLinesOf(controller))
      : !this.#surplus.exceededByInterim(statusCode)
    if (!isSound) controller.abort(new UpstreamFailure('protocol'))
    else if (isFinal) this.#onHead(statusCode, headers)
    // Its fields as bytes keep whole the buffers that they were read into, until the exchange ends.
    controller.rawHeaders = null
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#deadlines.progressed()
    if (this.#interest === 'discard') {
      if (this.#surplus.exceededByDiscarded(chunk.length)) this.#abandon()
    } else if (this.#sink?.whole !== undefined && isWholeBody(chunk, this.headers)) this.#sink.whole(chunk)
    else this.#pass(controller, chunk)
    this.connection?.release()
  }

  /** A copy: who writes it to a client, or keeps it for several, still holds it when more is read. */
  #pass(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#sink?.write(ownCopyOf(chunk)) === false) {
      this.#deadlines.hold(true)
      controller.pause()
    }
  }

  onResponseEnd(): void {
    if (this.#interest === 'answer') this.#sink?.end()
    this.#end()
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.broken = true
    if (this.#isStale(error)) {
      this.#retry()
    } else {
      if (this.#interest === 'answer') this.#report(toUpstreamFailure(error, this.#phase()))
      this.#end()
    }
  }

  #onHead(statusCode: number, headers: UpstreamHeaders): void {
    this.#answered = true
    const nowMs = this.#owner.nowMs()
    this.#deadlines.answered(nowMs)
    this.headersAfterMs = this.#deadlines.elapsedMs(nowMs)
    this.statusCode = statusCode
    this.headers = headers
    this.#owner.answered(this)
    this.#tell(null)
    this.connection?.release() // The head's fields are texts by now.
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
    if (!this.#answered) this.headersAfterMs = this.#deadlines.elapsedMs(this.#owner.nowMs())
    this.#interest = 'none'
    this.#owner.failed(this, failure)
    if (this.#answered) sink?.cut(failure)
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

  /** Once only: undici reports an error after the end where the end itself threw. */
  #end(): void {
    if (this.#ended) return
    this.#ended = true
    this.#interest = 'none'
    this.connection?.release()
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
