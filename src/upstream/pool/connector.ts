import type { Socket } from 'node:net'
import { errors } from 'undici'
import { asError } from '../../observability/failure-log.ts'
import type { Address } from './address-book.ts'
import type { UpstreamAddresses } from './resolver.ts'
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
