export interface InFlightBounds {
  /** The limit while the process is not overloaded. */
  readonly max: number
  /** The limit however late the process is; at most `max`. */
  readonly min: number
}

const SHRINK = 0.75
const GROWTH = 1 / 16

/**
 * How many requests may be in flight. While the event loop is late, the limit falls to three quarters of the current
 * number; otherwise it grows slowly. An on-off switch would alternate between shedding all requests and none.
 */
export class InFlightLimit {
  readonly #bounds: InFlightBounds
  #limit: number

  constructor(bounds: InFlightBounds) {
    this.#bounds = bounds
    this.#limit = bounds.max
  }

  get value(): number {
    return this.#limit
  }

  /** Call once per measuring period. @param inFlight requests in flight at the end of the period */
  adjust(isLate: boolean, inFlight: number): void {
    const { max, min } = this.#bounds
    this.#limit = isLate
      ? Math.max(min, Math.floor(Math.min(this.#limit, inFlight) * SHRINK))
      : Math.min(max, this.#limit + Math.ceil(this.#limit * GROWTH))
  }
}
