import { PROMISE } from './oracle.ts'
import type { Settings } from './plan.ts'

/** The most that a round trip may count for, as in `round-trip.ts`. */
const MAX_ROUND_TRIP_MS = 600
const ROUND_TRIPS_OF_A_CHANGE = 2
/** Of a near network, there and back. */
const NEAR_MS = 6
/** One way: a lookup at the key service takes a third of a heartbeat or more. */
const FAR_MS = 50
/** How long what was slow goes on to count: the bound of a slow region. */
const SLOW_COUNTS_MS = 3_000

/** What distance and slow ways add to the bounds of a region. */
export class RegionBounds {
  readonly #nowMs: () => number
  readonly #settings: Settings
  /** Until when the round trip of a region may be slower than its distance. */
  readonly #slowUntilMs = new Map<number, number>()

  constructor(nowMs: () => number, settings: Settings) {
    this.#nowMs = nowMs
    this.#settings = settings
  }

  slow(region: number, untilMs: number): void {
    this.#slowUntilMs.set(region, Math.max(untilMs, this.#slowUntilMs.get(region) ?? 0))
  }

  distanceMs(region: number): number {
    return this.#settings.distancesMs[region] ?? 0
  }

  isFar(region: number): boolean {
    return this.distanceMs(region) >= FAR_MS || this.#isSlow(region)
  }

  /** A change that cannot be announced to a far region: heartbeats go on for two round trips more, and take the way there. */
  boundMs(region: number): number {
    const { disconnectedBoundMs } = PROMISE
    if (this.#settings.distancesMs.length === 1) return disconnectedBoundMs
    const distanceMs = this.distanceMs(region)
    const roundTripMs = this.#isSlow(region) ? MAX_ROUND_TRIP_MS : 2 * distanceMs + NEAR_MS
    return disconnectedBoundMs + ROUND_TRIPS_OF_A_CHANGE * roundTripMs + distanceMs
  }

  /** Heartbeats of the slow time have arrived, and count no more. */
  #isSlow(region: number): boolean {
    return this.#nowMs() < (this.#slowUntilMs.get(region) ?? 0) + SLOW_COUNTS_MS
  }
}
