import type { Clock } from '../domain/clock.ts'

/** A lower number is used once it has been reported for so long: a gateway that restarts is back earlier. */
const FEWER_AFTER_MS = 60_000
/** The bound of `limits.replicas`: a key service cannot make a gateway reject everything. */
const MAX_GATEWAYS = 10_000

/** The number of gateways that share each limit while they cannot count together: configured, then as reported. */
export class GatewayCount {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  #value: number
  /** Reports of fewer gateways than are counted: since when (monotonic, ms), and the highest of them. */
  #fewer: { readonly sinceMs: number; readonly most: number } | null = null

  /** @param configured `limits.replicas`, used until the key service reports a number */
  constructor(configured: number, clock: Pick<Clock, 'monotonicMs'>) {
    this.#value = configured
    this.#clock = clock
  }

  get value(): number {
    return this.#value
  }

  /** More gateways count at once, because the limits would be exceeded; fewer only after a minute. */
  report(reported: number): void {
    if (!Number.isInteger(reported) || reported < 1 || reported > MAX_GATEWAYS) return
    if (reported >= this.#value) {
      this.#value = reported
      this.#fewer = null
      return
    }
    const nowMs = this.#clock.monotonicMs()
    const { sinceMs, most } = this.#fewer ?? { sinceMs: nowMs, most: 0 }
    this.#fewer = { sinceMs, most: Math.max(most, reported) }
    if (nowMs - sinceMs < FEWER_AFTER_MS) return
    this.#value = this.#fewer.most
    this.#fewer = null
  }
}
