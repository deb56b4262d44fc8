/** Address of one server of the upstream. */
export interface Address {
  /** An IP address. */
  readonly host: string
  readonly port: number
}

/** How long an unreachable address is tried after all others. */
const AVOIDED_MS = 10_000
/** A name may have hundreds of addresses; this many suffice for spreading load and for retries. */
const MAX_ADDRESSES = 64

/** Decides in which order the addresses of the upstream are tried, by earlier results and time. */
export class AddressBook {
  #addresses: readonly Address[] = []
  #avoidedUntilMs = new Map<string, number>()
  #turn = 0

  get isEmpty(): boolean {
    return this.#addresses.length === 0
  }

  /** Replaces all addresses. An avoided address that is among the new ones stays avoided. */
  replace(addresses: readonly Address[]): void {
    const byName = new Map(addresses.map(address => [nameOf(address), address]))
    this.#addresses = [...byName.values()].slice(0, MAX_ADDRESSES)
    const known = new Set(this.#addresses.map(nameOf))
    for (const name of this.#avoidedUntilMs.keys()) if (!known.has(name)) this.#avoidedUntilMs.delete(name)
  }

  /** @returns usable addresses in rotation, then avoided ones, the one that becomes usable first before the others */
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

  stats(nowMs: number): { usable: number; avoided: number } {
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
