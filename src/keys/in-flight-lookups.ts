import type { Lookup } from '../domain/lookup.ts'
import { DEAF_TRUST_MS, type Moment } from './tiers/memory/memory-store.ts'

/** A look-up under way, and whether what it brings may still be used. */
export interface Flight {
  readonly began: Moment
  /** A change of its key was heard since it began: its answer may be of before. */
  superseded: boolean
  /** Null where the answer must not be used. */
  answer: Promise<Lookup | null>
}

/** One look-up in flight per key, and not too many in all. */
export class Flights {
  readonly #current = new Map<string, Flight>()
  readonly #limit: number
  #airborne = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  get isFull(): boolean {
    return this.#airborne >= this.#limit
  }

  /**
   * One that may be waited for. What one of another epoch brings would not be usable; and while deaf, nobody is told of
   * a change, so that whoever comes later than a record is trusted asks anew, however slow the key service is allowed to be.
   */
  find(digest: string, { nowMs, hearing, epoch }: Moment): Flight | null {
    const flight = this.#current.get(digest)
    if (flight === undefined || flight.began.epoch !== epoch) return null
    return hearing || nowMs - flight.began.nowMs <= DEAF_TRUST_MS ? flight : null
  }

  /** @param fly answers with null where its answer must not be used; never rejects */
  begin(digest: string, began: Moment, fly: (flight: Flight) => Promise<Lookup | null>): Flight {
    const flight: Flight = { began, superseded: false, answer: Promise.resolve(null) }
    this.#current.set(digest, flight)
    this.#airborne++
    flight.answer = fly(flight).finally(() => this.#land(digest, flight))
    return flight
  }

  /** Takes it out of the way, so that nobody who comes later waits for it. */
  supersede(digest: string): boolean {
    const flight = this.#current.get(digest)
    if (flight === undefined) return false
    flight.superseded = true
    return this.#current.delete(digest)
  }

  #land(digest: string, flight: Flight): void {
    this.#airborne--
    if (this.#current.get(digest) === flight) this.#current.delete(digest)
  }
}
