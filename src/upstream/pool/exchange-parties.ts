import type { PreemptionCandidate } from './connection-shares.ts'
import type { DeadlineLimits } from './deadlines.ts'
import type { UpstreamFailure } from './failure.ts'

/** A request to the upstream, and the workspace it belongs to. */
export interface UpstreamRequest {
  readonly workspaceId: string
  /** Path and query of the upstream request. */
  readonly path: string
  readonly headers: Record<string, string>
}

/** Header fields by lower-case name; a field that was sent more than once is a list. */
export type UpstreamHeaders = Readonly<Record<string, string | string[] | undefined>>

/** The head of the upstream's response. */
export interface UpstreamResponse {
  readonly statusCode: number
  readonly headers: UpstreamHeaders
  /** Time from the start of the exchange to the head of the response, with the wait for a connection. */
  readonly waitedMs: number
  /** Resumes reading the body after a `write` returned `pause`. */
  resume(): void
}

/** Receives the outcome of an exchange. One of the two is called once, and neither after `abort()`. */
export interface ExchangeHandler {
  /** @returns sink for the body; null if it is not needed */
  onHead(response: UpstreamResponse): BodySink | null
  /** The exchange failed before the head of the response. */
  onFailure(failure: UpstreamFailure, waitedMs: number): void
}

/** Receives the body of a response. */
export interface BodySink {
  /** The complete body, if it arrived in one piece; `end` follows at once. */
  writeAll?(body: Buffer): void
  /**
   * @param chunk is the sink's from now on
   * @returns `pause` to stop until `resume()`; `discard` if the rest of the body is not needed
   */
  write(chunk: Buffer): 'continue' | 'pause' | 'discard'
  end(): void
  /**
   * The body ends early: what was delivered must not look complete.
   * @param failure null if the client caused it
   */
  fail(failure: UpstreamFailure | null): void
}

/** An exchange that can be aborted to free its connection. */
export interface PreemptableExchange<Exchange> extends PreemptionCandidate {
  readonly exchange: Exchange
}

/** The part of the dispatcher that an exchange uses. */
export interface ExchangeOwner<Exchange> {
  readonly limits: DeadlineLimits
  nowMs(): number
  /** Removes the exchange from the queue, if it waits. */
  withdraw(exchange: Exchange): void
  /** Sends the request again on a new connection. */
  resend(exchange: Exchange): void
  headReceived(exchange: Exchange): void
  failed(exchange: Exchange, failure: UpstreamFailure): void
  /** The exchange has ended and its connection is free. @param broken whether the exchange failed */
  released(exchange: Exchange, broken: boolean): void
}
