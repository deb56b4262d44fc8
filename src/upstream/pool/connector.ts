import { lookup } from 'node:dns/promises'
import { isIP, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { errors } from 'undici'
import { withoutBrackets } from '../../domain/form/address.ts'
import { asError, type FailureLog } from '../../observability/failure-log.ts'
import type { ConnectOptions, SocketConnector } from './upstream-socket.ts'

/** @param address server that the socket is connected to */
export type Connected = (error: Error | null, socket: Socket | null, address: Address | null) => void

export interface ConnectDeps {
  readonly addresses: UpstreamAddresses
  readonly connector: SocketConnector
  readonly connectTimeoutMs: number
  /** Monotonic, ms. */
  readonly nowMs: () => number
}

/**
 * Opens one connection to an address that can be reached. If an address fails, the next one is tried at once. If none is
 * connected after half of the timeout, a second attempt runs in parallel, and the first to connect is used. No part of a
 * request has been sent by then. Node's `autoSelectFamily` supports neither ports nor TLS, and undici's timeout fires up
 * to 500 ms late, hence this implementation.
 */
export function connectToUpstream(deps: ConnectDeps, options: ConnectOptions, connected: Connected): void {
  void new ConnectAttempt(deps, options, connected).run()
}

class ConnectAttempt {
  readonly #deps: ConnectDeps
  readonly #options: ConnectOptions
  readonly #timers: readonly NodeJS.Timeout[]
  readonly #inProgress = new Set<Address>()
  #candidates: Address[] | null = null
  #connected: Connected | null

  constructor(deps: ConnectDeps, options: ConnectOptions, connected: Connected) {
    this.#deps = deps
    this.#options = options
    this.#connected = connected
    this.#timers = [
      setTimeout(() => this.#connectNext(), deps.connectTimeoutMs / 2),
      setTimeout(() => this.#abortResponse(), deps.connectTimeoutMs),
    ]
  }

  async run(): Promise<void> {
    try {
      this.#candidates = await this.#deps.addresses.candidates()
      this.#connectNext()
    } catch (error) {
      this.#settle(asError(error), null, null)
    }
  }

  #connectNext(): void {
    const address = this.#connected === null ? undefined : this.#candidates?.shift()
    if (address === undefined) return
    this.#inProgress.add(address)
    const options = { ...this.#options, hostname: address.host, port: String(address.port) }
    this.#deps.connector(options, (error, socket) => {
      this.#inProgress.delete(address)
      if (error !== null) this.#failed(address, error)
      else this.#succeeded(address, socket)
    })
  }

  #succeeded(address: Address, socket: Socket): void {
    this.#deps.addresses.book.worked(address)
    if (this.#connected === null) socket.destroy()
    else this.#settle(null, socket, address)
  }

  #failed(address: Address, error: Error): void {
    this.#deps.addresses.book.failed(address, this.#deps.nowMs())
    this.#connectNext()
    if (this.#inProgress.size === 0) this.#settle(error, null, null)
  }

  #abortResponse(): void {
    const { addresses, nowMs } = this.#deps
    for (const address of this.#inProgress) addresses.book.failed(address, nowMs())
    const error = new Error('The upstream’s host name was not resolved before the connect timeout')
    const unresolved = Object.assign(error, { code: 'EAI_AGAIN' })
    this.#settle(this.#candidates === null ? unresolved : new errors.ConnectTimeoutError(), null, null)
  }

  #settle(error: Error | null, socket: Socket | null, address: Address | null): void {
    const connected = this.#connected
    if (connected === null) return
    this.#connected = null
    for (const timer of this.#timers) clearTimeout(timer)
    connected(error, socket, address)
  }
}

/** @returns the IP addresses of a name, in any order */
export type Resolve = (name: string) => Promise<readonly string[]>

interface AddressDeps {
  /** Monotonic. */
  readonly nowMs: () => number
  readonly resolve: Resolve
  /** Reports failed lookups; the last known addresses stay in use. */
  readonly failures: Pick<FailureLog, 'failed' | 'succeeded'>
}

/** One address of the upstream as configured. */
interface UpstreamTarget {
  /** A name or an IP address. */
  readonly host: string
  readonly port: number
}

interface PendingResolution {
  /** Resolves with the first name that resolves; rejects if none does. */
  readonly first: Promise<void>
  readonly all: Promise<unknown>
  readonly startedAtMs: number
}

/** How long resolved addresses are used before the names are resolved again. */
const FRESH_MS = 5_000
/** How long a connection waits for fresh addresses if older ones are known. */
const MAX_REFRESH_WAIT_MS = 200

/** The system's resolver: it honours the hosts file and the cluster's search domains, unlike `dns.resolve`. */
export const resolveName: Resolve = async name => {
  const found = await lookup(name, { all: true, order: 'verbatim' })
  return found.map(({ address }) => address)
}

/**
 * The current addresses of the upstream. Names are resolved when a connection is made, at most once in five seconds and
 * never twice at a time. If resolution fails, the last known addresses stay in use.
 */
export class UpstreamAddresses {
  readonly book = new AddressBook()
  readonly #targets: readonly UpstreamTarget[]
  readonly #deps: AddressDeps
  readonly #known = new Map<UpstreamTarget, readonly Address[]>()
  #pending: PendingResolution | null = null
  #resolvedAtMs = Number.NEGATIVE_INFINITY

  constructor(targets: readonly UpstreamTarget[], deps: AddressDeps) {
    this.#targets = targets
    this.#deps = deps
    for (const target of targets) if (isIP(target.host) !== 0) this.#known.set(target, [target])
    this.#updateBook()
  }

  /** @returns addresses in the order in which to try them @throws if no name was ever resolved */
  async candidates(): Promise<Address[]> {
    const pending = this.#refresh()
    if (this.book.isEmpty) {
      await pending?.first
    } else if (pending !== null) {
      const leftMs = pending.startedAtMs + MAX_REFRESH_WAIT_MS - this.#deps.nowMs()
      if (leftMs > 0) await Promise.race([pending.all, wait(leftMs, undefined, { ref: false })])
    }
    return this.book.order(this.#deps.nowMs())
  }

  #refresh(): PendingResolution | null {
    const nowMs = this.#deps.nowMs()
    const names = this.#targets.filter(({ host }) => isIP(host) === 0)
    if (names.length === 0) return null
    if (this.#pending !== null) return this.#pending
    if (!this.book.isEmpty && nowMs - this.#resolvedAtMs < FRESH_MS) return null
    this.#resolvedAtMs = nowMs
    const resolutions = names.map(target => this.#resolve(target))
    const all = Promise.allSettled(resolutions).finally(() => {
      this.#pending = null
    })
    const first = Promise.any(resolutions).catch(({ errors: [error] }: AggregateError) =>
      Promise.reject(error),
    )
    // A caller may not await it: its rejection must not count as unhandled.
    first.catch(() => {})
    this.#pending = { first, all, startedAtMs: nowMs }
    return this.#pending
  }

  async #resolve(target: UpstreamTarget): Promise<void> {
    try {
      const hosts = await this.#deps.resolve(target.host)
      if (hosts.length === 0)
        throw Object.assign(new Error('The upstream’s host name has no address'), { code: 'ENOTFOUND' })
      this.#known.set(
        target,
        hosts.map(host => ({ host, port: target.port })),
      )
      this.#updateBook()
      this.#deps.failures.succeeded()
    } catch (error) {
      this.#deps.failures.failed(asError(error))
      throw error
    }
  }

  #updateBook(): void {
    this.book.replace(this.#targets.flatMap(target => this.#known.get(target) ?? []))
  }
}

/** @returns the configured addresses, or the host and port of the URL if none are configured */
export function listUpstreamTargets({
  url,
  addresses,
}: {
  readonly url: string
  readonly addresses: readonly string[]
}): UpstreamTarget[] {
  const { protocol, hostname, port } = new URL(url)
  const defaultPort = protocol === 'https:' ? 443 : 80
  if (addresses.length === 0) return [{ host: withoutBrackets(hostname), port: Number(port || defaultPort) }]
  return addresses.map(address => {
    const colon = address.lastIndexOf(':')
    return { host: withoutBrackets(address.slice(0, colon)), port: Number(address.slice(colon + 1)) }
  })
}

/** Address of one server of the upstream. */
export interface Address {
  /** An IP address. */
  readonly host: string
  readonly port: number
}

/** How long a failed address is tried after all others, until one connection tries it again. */
const AVOIDED_MS = 10_000
/** A name may have hundreds of addresses; this many suffice for spreading load and for retries. */
const MAX_ADDRESSES = 64

/** Why an address is avoided; the same must work before more than one connection at a time tries it. */
type Failing = 'connection' | 'response'

interface Avoided {
  readonly failing: Failing
  readonly untilMs: number
}

/**
 * Decides in which order the addresses of the upstream are tried, by earlier results and time. One that failed is probed like an
 * upstream whose circuit is half open: each connection would otherwise wait for a server that does not answer.
 */
export class AddressBook {
  #addresses: readonly Address[] = []
  readonly #avoided = new Map<string, Avoided>()
  /** When each address began a response last. */
  readonly #answeredAtMs = new Map<string, number>()
  #turn = 0

  get isEmpty(): boolean {
    return this.#addresses.length === 0
  }

  /** Replaces all addresses. An avoided address that is among the new ones stays avoided. */
  replace(addresses: readonly Address[]): void {
    const byName = new Map(addresses.map(address => [addressName(address), address]))
    this.#addresses = [...byName.values()].slice(0, MAX_ADDRESSES)
    const known = new Set(this.#addresses.map(addressName))
    for (const byAddress of [this.#avoided, this.#answeredAtMs]) {
      for (const name of byAddress.keys()) if (!known.has(name)) byAddress.delete(name)
    }
  }

  /** @returns an address to probe, then usable ones in rotation, then avoided ones, the one that is probed first before the others */
  order(nowMs: number): Address[] {
    const usable = this.#addresses.filter(address => !this.#avoided.has(addressName(address)))
    const probed = this.#takeProbe(nowMs)
    const avoided = this.#addresses.filter(address => address !== probed && !usable.includes(address))
    // The turn of the probe is none of the others'.
    const turn = probed !== undefined || usable.length === 0 ? this.#turn : this.#turn++
    const start = usable.length === 0 ? 0 : turn % usable.length
    return [
      ...(probed === undefined ? [] : [probed]),
      ...usable.slice(start),
      ...usable.slice(0, start),
      ...avoided.toSorted((one, other) => this.#avoidedMs(one, nowMs) - this.#avoidedMs(other, nowMs)),
    ]
  }

  failed(address: Address, nowMs: number, failing: Failing = 'connection'): void {
    const name = addressName(address)
    if (this.#addresses.some(known => addressName(known) === name)) {
      this.#avoided.set(name, { failing, untilMs: nowMs + AVOIDED_MS })
    }
  }

  /** A connection was made. */
  worked(address: Address): void {
    this.#showed('connection', addressName(address))
  }

  answered(address: Address, nowMs: number): void {
    const name = addressName(address)
    this.#answeredAtMs.set(name, nowMs)
    this.#showed('response', name)
  }

  /** A request that was sent at this time got no response in time. It shows nothing if the address answered others since. */
  timedOut(address: Address, beganAtMs: number, nowMs: number): void {
    const answeredAtMs = this.#answeredAtMs.get(addressName(address)) ?? Number.NEGATIVE_INFINITY
    if (answeredAtMs <= beganAtMs) this.failed(address, nowMs, 'response')
  }

  stats(nowMs: number): { usable: number; avoided: number } {
    const avoided = this.#addresses.filter(address => this.#avoidedMs(address, nowMs) > 0).length
    return { usable: this.#addresses.length - avoided, avoided }
  }

  /** An address that was avoided for long enough. Until its result is known, or for as long again, the others avoid it. */
  #takeProbe(nowMs: number): Address | undefined {
    for (const address of this.#avoided.size === 0 ? [] : this.#addresses) {
      const avoided = this.#avoided.get(addressName(address))
      if (avoided === undefined || avoided.untilMs > nowMs) continue
      this.failed(address, nowMs, avoided.failing)
      return address
    }
    return undefined
  }

  #showed(working: Failing, name: string): void {
    if (this.#avoided.get(name)?.failing === working) this.#avoided.delete(name)
  }

  #avoidedMs(address: Address, nowMs: number): number {
    return Math.max(0, (this.#avoided.get(addressName(address))?.untilMs ?? 0) - nowMs)
  }
}

function addressName({ host, port }: Address): string {
  return `${host} ${port}`
}
