/** Heartbeats of some seconds: a few slow ones do not make a region look far. */
const OBSERVED = 16
/** Beyond this a region counts as slow, not as far. */
const MAX_ROUND_TRIP_MS = 600

/** The time to a region and back: the fastest of its last heartbeats. */
export class RoundTrip {
  readonly #observedMs: number[] = []

  observe(ms: number): void {
    this.#observedMs.push(ms)
    if (this.#observedMs.length > OBSERVED) this.#observedMs.shift()
  }

  get ms(): number {
    return this.#observedMs.length === 0 ? 0 : Math.min(...this.#observedMs, MAX_ROUND_TRIP_MS)
  }
}
