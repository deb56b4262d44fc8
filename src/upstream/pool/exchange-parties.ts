import type { UpstreamFailure } from '../failure.ts'
import type { UpstreamHeaders } from '../response-policy.ts'
import type { DeadlineLimits } from './deadlines.ts'
import type { Standing } from './preemption.ts'

/** A request to the upstream, and the workspace that it counts for. */
export interface UpstreamRequest {
  readonly workspaceId: string
  /** Path and query at the upstream. */
  readonly path: string
  readonly headers: Record<string, string>
}

/** The head of the upstream's response. */
export interface UpstreamResponse {
  readonly statusCode: number
  readonly headers: UpstreamHeaders
  /** From sending the request to the head of the response, the wait for a connection included. */
  readonly waitedMs: number
  /** Takes up the body again after a `write` returned `pause`. */
  resume(): void
}

/** Receives the outcome of an exchange: one of the two is called, once, and neither after `abort()`. */
export interface ExchangeHandler {
  /** @returns where the body goes; null where it is not wanted */
  onHead(response: UpstreamResponse): BodySink | null
  /** There will be no response. */
  onFailure(failure: UpstreamFailure, waitedMs: number): void
}

/** Where the bytes of a body go. */
export interface BodySink {
  /**
   * The body, where it came in one piece; `end` follows at once.
   * @param body valid until this returns: the next read overwrites it
   */
  writeAll?(body: Buffer): void
  /**
   * @param chunk may be kept
   * @returns `pause` until `resume()`; `discard` where nothing more of the body is wanted
   */
  write(chunk: Buffer): 'continue' | 'pause' | 'discard'
  end(): void
  /**
   * The body breaks off: what was delivered must not look complete.
   * @param failure null where the client caused it
   */
  fail(failure: UpstreamFailure | null): void
}

/** An exchange that can be ended now, so that its connection is free. */
export interface EndableExchange<Exchange> extends Standing {
  readonly exchange: Exchange
}

/** What an exchange needs of the dispatcher. */
export interface ExchangeOwner<Exchange> {
  readonly limits: DeadlineLimits
  nowMs(): number
  /** Removes it from the queue, if it waits. */
  withdraw(exchange: Exchange): void
  /** Sends it again, over a new connection. */
  resend(exchange: Exchange): void
  answered(exchange: Exchange): void
  failed(exchange: Exchange, failure: UpstreamFailure): void
  /** Nothing more will come: its connection is free. @param broken whether the exchange failed on it */
  released(exchange: Exchange, broken: boolean): void
}
