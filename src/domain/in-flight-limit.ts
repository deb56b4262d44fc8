export interface InFlightBounds {
  /** What is let in while all is well. */
  readonly most: number
  /** What is let in however late the process is; at most `most`. */
  readonly least: number
}

const SHRINK = 0.75
const GROWTH = 1 / 16

/**
 * How many requests may be in flight, as a function of how late the process was: down by a quarter of what was in flight
 * while it is late, up a little while it is not. Switched on and off instead, shedding would swing between all and none.
 */
export class InFlightLimit {
  readonly #bounds: InFlightBounds
  #limit: number

  constructor(bounds: InFlightBounds) {
    this.#bounds = bounds
    this.#limit = bounds.most
  }

  get value(): number {
    return this.#limit
  }

  /** Once per period. @param inFlight at its end */
  adjust(late: boolean, inFlight: number): void {
    const { most, least } = this.#bounds
    this.#limit = late
      ? Math.max(least, Math.floor(Math.min(this.#limit, inFlight) * SHRINK))
      : Math.min(most, this.#limit + Math.ceil(this.#limit * GROWTH))
  }
}
