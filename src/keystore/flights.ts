import type { Lookup } from '../domain/lookup.ts'
import type { Moment } from './memory-store.ts'

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

  /** One that began in this very epoch; what an older one brings would not be usable. */
  find(digest: string, epoch: number): Flight | null {
    const flight = this.#current.get(digest)
    return flight !== undefined && flight.began.epoch === epoch ? flight : null
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
