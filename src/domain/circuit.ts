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
  /** Probes at a time, each of another caller: one whose requests take long keeps no other out. Default 1. */
  readonly maxProbes?: number
}

/**
 * A circuit breaker: opens after consecutive failures, then admits few probes at a time. It is not a library's, because
 * those wrap a promise, and an exchange with the upstream is none.
 */
export class Circuit {
  readonly #settings: CircuitSettings
  #failures = 0
  #lastCountedAtMs = Number.NEGATIVE_INFINITY
  #openUntilMs: number | null = null
  /** Callers with a probe on its way. */
  readonly #probing = new Set<string>()

  constructor(settings: CircuitSettings) {
    this.#settings = settings
  }

  /** @param nowMs monotonic */
  state(nowMs: number): CircuitState {
    if (this.#openUntilMs === null) return 'closed'
    return nowMs < this.#openUntilMs ? 'open' : 'half_open'
  }

  /** Whether a request of this caller may be sent. While half open, only probes are admitted, one of a caller at a time. */
  admits(nowMs: number, caller = ''): boolean {
    const state = this.state(nowMs)
    if (state === 'closed') return true
    const { maxProbes = 1 } = this.#settings
    if (state === 'open' || this.#probing.has(caller) || this.#probing.size >= maxProbes) return false
    this.#probing.add(caller)
    return true
  }

  /** The server responded, with any result. */
  succeeded(): void {
    this.#failures = 0
    this.#openUntilMs = null
    this.#probing.clear()
  }

  /** The server could not be reached, or did not respond in time. */
  failed(nowMs: number): void {
    this.#probing.clear()
    if (nowMs - this.#lastCountedAtMs >= (this.#settings.mergeFailuresMs ?? 0)) {
      this.#failures++
      this.#lastCountedAtMs = nowMs
    }
    if (this.#failures >= this.#settings.failures) this.#openUntilMs = nowMs + this.#settings.openMs
  }

  /** An admitted request of this caller ended without a result, such as when its client disconnected. */
  abandoned(caller = ''): void {
    this.#probing.delete(caller)
  }
}
