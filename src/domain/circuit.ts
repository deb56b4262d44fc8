export type CircuitState = 'closed' | 'open' | 'half_open'

export interface CircuitSettings {
  /** Failures in a row after which it opens. */
  readonly failures: number
  /** How long it stays open before one probe is let through, ms. */
  readonly openMs: number
  /**
   * Failures within so many ms are one: many that were under way fail together, of one cause, which may be a pause of our
   * own. 0 where it is left out.
   */
  readonly momentMs?: number
}

/**
 * Whether something behind is worth asking, as a function of what came of asking and of time. Own, and not a library's:
 * those wrap a promise, and an exchange is none; this is three numbers.
 */
export class Circuit {
  readonly #settings: CircuitSettings
  #failures = 0
  #countedAtMs = Number.NEGATIVE_INFINITY
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

  /** Asks leave for one request. Of those that come while half open, one is the probe. */
  admits(nowMs: number): boolean {
    const state = this.state(nowMs)
    if (state === 'closed') return true
    if (state === 'open' || this.#probing) return false
    this.#probing = true
    return true
  }

  /** Milliseconds until the next probe; 0 where it is not open. */
  waitMs(nowMs: number): number {
    return this.#openUntilMs === null ? 0 : Math.max(0, this.#openUntilMs - nowMs)
  }

  /** It answered, with any result. */
  succeeded(): void {
    this.#failures = 0
    this.#openUntilMs = null
    this.#probing = false
  }

  /** It could not be reached, or did not answer in time. */
  failed(nowMs: number): void {
    this.#probing = false
    if (nowMs - this.#countedAtMs >= (this.#settings.momentMs ?? 0)) {
      this.#failures++
      this.#countedAtMs = nowMs
    }
    if (this.#failures >= this.#settings.failures) this.#openUntilMs = nowMs + this.#settings.openMs
  }

  /** An admitted request ended without a result, such as when its client disconnected. */
  abandoned(): void {
    this.#probing = false
  }
}
