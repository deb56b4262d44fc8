export type CircuitState = 'closed' | 'open' | 'half_open'

export interface CircuitSettings {
  /** Consecutive failures after which it opens. */
  readonly failures: number
  /** How long it stays open before one probe is let through, ms. */
  readonly openMs: number
  /**
   * Failures within this time count as one: requests in flight fail together for one cause, such as a pause of this
   * process. Default 0.
   */
  readonly mergeFailuresMs?: number
}

/**
 * A circuit breaker: opens after consecutive failures, then admits one probe at a time. It is not a library's, because
 * those wrap a promise, and an exchange with the upstream is none.
 */
export class Circuit {
  readonly #settings: CircuitSettings
  #failures = 0
  #lastCountedAtMs = Number.NEGATIVE_INFINITY
  #openUntilMs: number | null = null
  #probing = false

  constructor(settings: CircuitSettings) {
    this.#settings = settings
  }

  /** @param nowMs monotonic */
  state(nowMs: number): CircuitState {
    if (this.#openUntilMs === null) return 'closed'
    return nowMs < this.#openUntilMs ? 'open' : 'half_open'
  }

  /** Whether a request may be sent. While half open, only one request is admitted: the probe. */
  admits(nowMs: number): boolean {
    const state = this.state(nowMs)
    if (state === 'closed') return true
    if (state === 'open' || this.#probing) return false
    this.#probing = true
    return true
  }

  /** Milliseconds until the next probe; 0 if the circuit is not open. */
  waitMs(nowMs: number): number {
    return this.#openUntilMs === null ? 0 : Math.max(0, this.#openUntilMs - nowMs)
  }

  /** The server responded, with any result. */
  succeeded(): void {
    this.#failures = 0
    this.#openUntilMs = null
    this.#probing = false
  }

  /** The server could not be reached, or did not respond in time. */
  failed(nowMs: number): void {
    this.#probing = false
    if (nowMs - this.#lastCountedAtMs >= (this.#settings.mergeFailuresMs ?? 0)) {
      this.#failures++
      this.#lastCountedAtMs = nowMs
    }
    if (this.#failures >= this.#settings.failures) this.#openUntilMs = nowMs + this.#settings.openMs
  }

  /** An admitted request ended without a result, such as when its client disconnected. */
  abandoned(): void {
    this.#probing = false
  }
}
