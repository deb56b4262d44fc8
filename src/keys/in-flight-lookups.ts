import type { Lookup } from '../domain/key/lookup.ts'
import { type ChannelState, mayJoin } from './trust.ts'

/** A lookup in flight. */
export interface InFlightLookup {
  readonly began: ChannelState
  /** A change of its key arrived since it began: its result may predate the change. */
  isSuperseded: boolean
  /** Null if the result must not be used. */
  result: Promise<Lookup | null>
}

/** One lookup in flight for each key, and a limited number in all. */
export class InFlightLookups {
  readonly #byDigest = new Map<string, InFlightLookup>()
  readonly #limit: number
  #count = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  get isFull(): boolean {
    return this.#count >= this.#limit
  }

  get isHalfFull(): boolean {
    return this.#count >= this.#limit / 2
  }

  /** The lookup that a request may join now, or null. */
  find(digest: string, now: ChannelState): InFlightLookup | null {
    const lookup = this.#byDigest.get(digest)
    return lookup !== undefined && mayJoin(lookup.began, now) ? lookup : null
  }

  /** @param run resolves to null if its result must not be used; never rejects */
  begin(
    digest: string,
    began: ChannelState,
    run: (lookup: InFlightLookup) => Promise<Lookup | null>,
  ): InFlightLookup {
    const lookup: InFlightLookup = { began, isSuperseded: false, result: Promise.resolve(null) }
    this.#byDigest.set(digest, lookup)
    this.#count++
    lookup.result = run(lookup).finally(() => this.#end(digest, lookup))
    return lookup
  }

  /** Later requests begin a lookup of their own. */
  supersede(digest: string): void {
    const lookup = this.#byDigest.get(digest)
    if (lookup === undefined) return
    lookup.isSuperseded = true
    this.#byDigest.delete(digest)
  }

  #end(digest: string, lookup: InFlightLookup): void {
    this.#count--
    if (this.#byDigest.get(digest) === lookup) this.#byDigest.delete(digest)
  }
}
