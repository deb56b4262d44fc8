import type { UpstreamFailure } from '../failure.ts'
import type { DeadlineLimits } from './deadlines.ts'
import type { UpstreamExchange } from './exchange.ts'
import type { Standing } from './preemption.ts'

/** Where the bytes of a body go. */
export interface BodySink {
  /**
   * The body, where it came in one piece and somebody can use it so; its end follows at once.
   * @param body good until this returns: what is read next is read into the same bytes
   */
  whole?(body: Buffer): void
  /**
   * @param chunk may be kept
   * @returns false where no more is wanted until `exchange.drained()`
   */
  write(chunk: Buffer): boolean
  end(): void
  /**
   * The body breaks off: what was delivered must not look whole.
   * @param failure null where it is the client's doing
   */
  cut(failure: UpstreamFailure | null): void
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

/** Of whom is anything still expected: the one who reads, the one who only clears the connection, or nobody. */
export type Interest = 'answer' | 'discard' | 'none'

/** An exchange that can be ended now, so that its connection is free. */
export interface EndableExchange extends Standing {
  readonly exchange: UpstreamExchange
}

/** What is asked of the upstream, and for whom. */
export interface UpstreamRequest {
  readonly workspaceId: string
  /** Path and query at the upstream. */
  readonly path: string
  readonly headers: Record<string, string>
  /** How long its client has waited already, for the answer to somebody else's request. */
  readonly waitedBeforeMs?: number
}

/** What an exchange needs of the dispatcher. */
export interface ExchangeOwner {
  readonly limits: DeadlineLimits
  nowMs(): number
  /** Where the exchange still waits for its turn it never gets one. */
  withdraw(exchange: UpstreamExchange): void
  resend(exchange: UpstreamExchange): void
  answered(exchange: UpstreamExchange): void
  failed(exchange: UpstreamExchange, failure: UpstreamFailure): void
  /** Nothing more will come: the place in the pool is free. */
  released(exchange: UpstreamExchange): void
}
