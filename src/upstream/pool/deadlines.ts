import type { UpstreamFailureKind } from '../failure.ts'

export interface DeadlineLimits {
  readonly headersTimeoutMs: number
  readonly bodyIdleTimeoutMs: number
  readonly totalTimeoutMs: number
  /** How long a client may take nothing of an answer that waits for it. */
  readonly clientStallMs: number
}

/** `client_stalled` is no failure of the upstream's. */
export type Overdue = Extract<UpstreamFailureKind, `${string}_timeout`> | 'client_stalled'

/** How long one exchange may take, as a function of times; it owns no timer. */
export class Deadlines {
  readonly #limits: DeadlineLimits
  readonly #askedAtMs: number
  readonly #waitedBeforeMs: number
  #answered = false
  #held = false
  #progressed = false
  #progressAtMs = 0

  /** @param waitedBeforeMs time already used of the limit for the whole response */
  constructor(limits: DeadlineLimits, askedAtMs: number, waitedBeforeMs = 0) {
    this.#limits = limits
    this.#askedAtMs = askedAtMs
    this.#waitedBeforeMs = waitedBeforeMs
  }

  /** @returns milliseconds since asking */
  elapsedMs(nowMs: number): number {
    return nowMs - this.#askedAtMs
  }

  answered(nowMs: number): void {
    this.#answered = true
    this.#progressAtMs = nowMs
  }

  /** Something moved. The time of it is read at the next look: a clock per chunk would be dear. */
  progressed(): void {
    this.#progressed = true
  }

  get isHeld(): boolean {
    return this.#held
  }

  /** @param held whether the client takes nothing at present, so that the upstream is not to blame for silence */
  hold(held: boolean): void {
    this.#held = held
    this.#progressed = true
  }

  /** @returns when it began, and how long its client has taken nothing of what waits for it: 0 where nothing waits */
  standing(nowMs: number): { askedAtMs: number; stalledMs: number } {
    const stalledMs = this.#held && !this.#progressed ? nowMs - this.#progressAtMs : 0
    return { askedAtMs: this.#askedAtMs, stalledMs }
  }

  overdue(nowMs: number): Overdue | null {
    if (this.#progressed) {
      this.#progressed = false
      this.#progressAtMs = nowMs
    }
    const limits = this.#limits
    const elapsedMs = nowMs - this.#askedAtMs
    const idleMs = nowMs - this.#progressAtMs
    if (elapsedMs + this.#waitedBeforeMs >= limits.totalTimeoutMs) return 'total_timeout'
    if (!this.#answered) return elapsedMs >= limits.headersTimeoutMs ? 'headers_timeout' : null
    if (this.#held) return idleMs >= limits.clientStallMs ? 'client_stalled' : null
    return idleMs >= limits.bodyIdleTimeoutMs ? 'body_timeout' : null
  }
}
