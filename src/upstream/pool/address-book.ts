/** Where one server of the upstream is. */
export interface Address {
  /** An IP address. */
  readonly host: string
  readonly port: number
}

/** How long one that could not be reached comes after all the others. */
const AVOIDED_MS = 10_000
/** A name may have hundreds; so many are enough to be spread over, and to be tried one after the other. */
const MAX_ADDRESSES = 64

/** In which order the servers of the upstream are tried, as a function of what came of trying and of time. */
export class AddressBook {
  #addresses: readonly Address[] = []
  #avoidedUntilMs = new Map<string, number>()
  #turn = 0

  get isEmpty(): boolean {
    return this.#addresses.length === 0
  }

  /** Takes the place of all that was known. What is avoided stays so where it is among them. */
  replace(addresses: readonly Address[]): void {
    const byName = new Map(addresses.map(address => [nameOf(address), address]))
    this.#addresses = [...byName.values()].slice(0, MAX_ADDRESSES)
    const known = new Set(this.#addresses.map(nameOf))
    for (const name of this.#avoidedUntilMs.keys()) if (!known.has(name)) this.#avoidedUntilMs.delete(name)
  }

  /** The next in turn first; those that are avoided last, and of them the one whose time is over soonest first. */
  order(nowMs: number): Address[] {
    const usable = this.#addresses.filter(address => this.#avoidedMs(address, nowMs) === 0)
    const avoided = this.#addresses.filter(address => !usable.includes(address))
    const start = usable.length === 0 ? 0 : this.#turn++ % usable.length
    return [
      ...usable.slice(start),
      ...usable.slice(0, start),
      ...avoided.toSorted((one, other) => this.#avoidedMs(one, nowMs) - this.#avoidedMs(other, nowMs)),
    ]
  }

  failed(address: Address, nowMs: number): void {
    const name = nameOf(address)
    if (this.#addresses.some(known => nameOf(known) === name)) {
      this.#avoidedUntilMs.set(name, nowMs + AVOIDED_MS)
    }
  }

  worked(address: Address): void {
    this.#avoidedUntilMs.delete(nameOf(address))
  }

  figures(nowMs: number): { usable: number; avoided: number } {
    const avoided = this.#addresses.filter(address => this.#avoidedMs(address, nowMs) > 0).length
    return { usable: this.#addresses.length - avoided, avoided }
  }

  #avoidedMs(address: Address, nowMs: number): number {
    return Math.max(0, (this.#avoidedUntilMs.get(nameOf(address)) ?? 0) - nowMs)
  }
}

function nameOf({ host, port }: Address): string {
  return `${host} ${port}`
}
