import type { Socket } from 'node:net'
import { type buildConnector, errors } from 'undici'
import { asError } from '../../observability/trouble-log.ts'
import type { Address } from './address-book.ts'
import type { UpstreamAddresses } from './resolver.ts'

/** undici's options for a connection; its host and port are replaced by those of an address. */
export type ConnectOptions = Parameters<buildConnector.connector>[0]

/** @param address where the connection leads */
export type Connected = (error: Error | null, socket: Socket | null, address: Address | null) => void

export interface ConnectDeps {
  readonly addresses: UpstreamAddresses
  readonly connector: buildConnector.connector
  readonly connectTimeoutMs: number
  /** Monotonic, ms. */
  readonly nowMs: () => number
}

/**
 * Makes one connection to whichever address can be reached. An address that fails is followed by the next at once; one
 * that is silent for half of the time gets one competitor, and the first to connect serves. Nothing of a request has
 * been sent by then, so that this repeats none. Node's own attempts at several addresses know neither ports nor TLS,
 * and undici's time-out is late by up to half a second: hence an own deadline.
 */
export function connectToUpstream(deps: ConnectDeps, options: ConnectOptions, connected: Connected): void {
  void new Attempt(deps, options, connected).run()
}

class Attempt {
  readonly #deps: ConnectDeps
  readonly #options: ConnectOptions
  readonly #timers: readonly NodeJS.Timeout[]
  readonly #underWay = new Set<Address>()
  #candidates: Address[] | null = null
  #connected: Connected | null

  constructor(deps: ConnectDeps, options: ConnectOptions, connected: Connected) {
    this.#deps = deps
    this.#options = options
    this.#connected = connected
    this.#timers = [
      setTimeout(() => this.#connectNext(), deps.connectTimeoutMs / 2),
      setTimeout(() => this.#giveUp(), deps.connectTimeoutMs),
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
    this.#underWay.add(address)
    const options = { ...this.#options, hostname: address.host, port: String(address.port) }
    this.#deps.connector(options, (error, socket) => {
      this.#underWay.delete(address)
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
    if (this.#underWay.size === 0) this.#settle(error, null, null)
  }

  #giveUp(): void {
    const { addresses, nowMs } = this.#deps
    for (const address of this.#underWay) addresses.book.failed(address, nowMs())
    const unresolved = Object.assign(new Error('The name was not resolved in time'), { code: 'EAI_AGAIN' })
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
