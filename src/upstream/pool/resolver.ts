import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { asError, type TroubleLog } from '../../observability/trouble-log.ts'
import { type Address, AddressBook } from './address-book.ts'

/** @returns the IP addresses of a name, in any order */
export type Resolve = (name: string) => Promise<readonly string[]>

export interface AddressDeps {
  /** Monotonic, ms. */
  readonly nowMs: () => number
  readonly resolve: Resolve
  /** Told where a name is not resolved; what was known before stays in use. */
  readonly trouble: Pick<TroubleLog, 'failed' | 'works'>
}

/** Where a server is, as settings say it. */
export interface Place {
  /** A name or an IP address. */
  readonly host: string
  readonly port: number
}

interface Asking {
  /** Something is known, or nothing will be. */
  readonly first: Promise<void>
  readonly all: Promise<unknown>
  readonly sinceMs: number
}

/** For how long a name is not asked for again. */
const FRESH_MS = 5_000
/** How long a connection waits for news of a name, where older news would do. */
const PATIENCE_MS = 200

/** As programs on this machine resolve a name, the hosts file and search domains of the cluster included. */
export const resolveName: Resolve = async name => {
  const found = await lookup(name, { all: true, order: 'verbatim' })
  return found.map(({ address }) => address)
}

/**
 * Where the upstream is now. A name is asked for when a connection is to be made, never more than once at a time or in
 * five seconds; what was last known is used for as long as nobody can say better.
 */
export class UpstreamAddresses {
  readonly book = new AddressBook()
  readonly #places: readonly Place[]
  readonly #deps: AddressDeps
  readonly #known = new Map<Place, readonly Address[]>()
  #asking: Asking | null = null
  #askedAtMs = Number.NEGATIVE_INFINITY

  constructor(places: readonly Place[], deps: AddressDeps) {
    this.#places = places
    this.#deps = deps
    for (const place of places) if (isIP(place.host) !== 0) this.#known.set(place, [place])
    this.#note()
  }

  /** @returns addresses in the order in which to try them @throws where no name could ever be resolved */
  async candidates(): Promise<Address[]> {
    const asking = this.#ask()
    if (this.book.isEmpty) {
      await asking?.first
    } else if (asking !== null) {
      const leftMs = asking.sinceMs + PATIENCE_MS - this.#deps.nowMs()
      if (leftMs > 0) await Promise.race([asking.all, wait(leftMs, undefined, { ref: false })])
    }
    return this.book.order(this.#deps.nowMs())
  }

  #ask(): Asking | null {
    const nowMs = this.#deps.nowMs()
    const names = this.#places.filter(({ host }) => isIP(host) === 0)
    if (names.length === 0) return null
    if (this.#asking !== null) return this.#asking
    if (!this.book.isEmpty && nowMs - this.#askedAtMs < FRESH_MS) return null
    this.#askedAtMs = nowMs
    const answers = names.map(place => this.#resolve(place))
    const all = Promise.allSettled(answers).finally(() => {
      this.#asking = null
    })
    const first = Promise.any(answers).catch(({ errors: [error] }: AggregateError) => Promise.reject(error))
    // Whoever waits for it hears of its failure; nobody need wait.
    first.catch(() => {})
    this.#asking = { first, all, sinceMs: nowMs }
    return this.#asking
  }

  async #resolve(place: Place): Promise<void> {
    try {
      const hosts = await this.#deps.resolve(place.host)
      if (hosts.length === 0) throw Object.assign(new Error('The name has no address'), { code: 'ENOTFOUND' })
      this.#known.set(
        place,
        hosts.map(host => ({ host, port: place.port })),
      )
      this.#note()
      this.#deps.trouble.works()
    } catch (error) {
      this.#deps.trouble.failed(asError(error))
      throw error
    }
  }

  #note(): void {
    this.book.replace(this.#places.flatMap(place => this.#known.get(place) ?? []))
  }
}
