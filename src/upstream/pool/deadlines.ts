import type { UpstreamFailureKind } from '../failure.ts'

export interface DeadlineLimits {
  readonly headersTimeoutMs: number
  readonly bodyIdleTimeoutMs: number
  readonly totalTimeoutMs: number
  /** How long a client may read nothing while a part of its response waits to be sent. */
  readonly clientStallMs: number
}

/** `client_stalled` is no failure of the upstream. */
export type ExceededDeadline = Extract<UpstreamFailureKind, `${string}_timeout`> | 'client_stalled'

/** The deadlines of one exchange, as a function of time without a timer. */
export class Deadlines {
  readonly #limits: DeadlineLimits
  readonly #startedAtMs: number
  readonly #waitedBeforeMs: number
  #hasHead = false
  #isPaused = false
  #progressed = false
  #progressAtMs = 0

  /** @param waitedBeforeMs time already used of the limit for the whole response */
  constructor(limits: DeadlineLimits, startedAtMs: number, waitedBeforeMs = 0) {
    this.#limits = limits
    this.#startedAtMs = startedAtMs
    this.#waitedBeforeMs = waitedBeforeMs
  }

  /** @returns milliseconds since the exchange started */
  elapsedMs(nowMs: number): number {
    return nowMs - this.#startedAtMs
  }

  headReceived(nowMs: number): void {
    this.#hasHead = true
    this.#progressAtMs = nowMs
  }

  /** Call for each chunk. The next `overdue` sets its time, because reading the clock per chunk is expensive. */
  progressed(): void {
    this.#progressed = true
  }

  get isPaused(): boolean {
    return this.#isPaused
  }

  /** @param isPaused whether reading is paused for the client, so that the upstream's idle time does not count */
  setPaused(isPaused: boolean): void {
    this.#isPaused = isPaused
    this.#progressed = true
  }

  /** @returns start of the exchange and how long its client has read nothing; 0 ms if no data waits for it */
  stall(nowMs: number): { startedAtMs: number; stalledMs: number } {
    const stalledMs = this.#isPaused && !this.#progressed ? nowMs - this.#progressAtMs : 0
    return { startedAtMs: this.#startedAtMs, stalledMs }
  }

  overdue(nowMs: number): ExceededDeadline | null {
    if (this.#progressed) {
      this.#progressed = false
      this.#progressAtMs = nowMs
    }
    const limits = this.#limits
    const elapsedMs = nowMs - this.#startedAtMs
    const idleMs = nowMs - this.#progressAtMs
    if (elapsedMs + this.#waitedBeforeMs >= limits.totalTimeoutMs) return 'total_timeout'
    if (!this.#hasHead) return elapsedMs >= limits.headersTimeoutMs ? 'headers_timeout' : null
    if (this.#isPaused) return idleMs >= limits.clientStallMs ? 'client_stalled' : null
    return idleMs >= limits.bodyIdleTimeoutMs ? 'body_timeout' : null
  }
}
