import { Cluster, type Redis } from 'ioredis'
import { type RedisClient, settlePrimaries, socketOf } from './clients.ts'
import type { Endpoint } from './endpoint.ts'
import { writeTogether } from './write-together.ts'

/** The events of a connection, the same for every kind of Redis. */
export interface ConnectionEvents {
  onReady?(): void
  /** The connection closed or could not be opened. */
  onLost?(): void
  /** Receives the cause. Not called after `stop()` or `reconnect()`. */
  onTrouble?(error: Error): void
  /** The client is about to reconnect. */
  onReconnecting?(): void
}

/** A client and its events. It reconnects without limit, in the background. */
export class RedisConnection<Client extends RedisClient = RedisClient> {
  readonly client: Client
  readonly #events: ConnectionEvents
  #ready = false
  #stopped = false
  #reconnecting = false

  constructor(client: Client, events: ConnectionEvents) {
    this.client = client
    this.#events = events
    const emitter: RedisClient = client
    // Without a listener ioredis prints errors as plain text among the JSON of the log.
    emitter.on('error', (error: Error) => this.#failed(causeIn(error)))
    emitter.on('close', () => this.#lost())
    emitter.on('ready', () => this.#connected())
    emitter.on('reconnecting', () => events.onReconnecting?.())
  }

  get isReady(): boolean {
    return this.#ready && this.client.status === 'ready'
  }

  /** The server it is connected to; null while disconnected and for a cluster. */
  get server(): Endpoint | null {
    const client: RedisClient = this.client
    if (client instanceof Cluster || !this.isReady) return null
    const { remoteAddress, remotePort } = socketOf(client) ?? {}
    return remoteAddress === undefined || remotePort === undefined
      ? null
      : { host: remoteAddress, port: remotePort }
  }

  /** Call before a command that is one of many. No effect in a cluster, where each node has its own socket. */
  writeTogether(): void {
    const client: RedisClient = this.client
    const socket = this.isReady && !(client instanceof Cluster) ? socketOf(client) : null
    if (socket !== null) writeTogether(socket)
  }

  /** Stops reading from the socket. A new connection reads again. */
  pauseReading(): void {
    const client: RedisClient = this.client
    if (!(client instanceof Cluster)) socketOf(client)?.pause()
  }

  resumeReading(): void {
    const client: RedisClient = this.client
    if (!(client instanceof Cluster)) socketOf(client)?.resume()
  }

  start(): void {
    this.client.connect().catch(() => {}) // The listeners report it, and ioredis retries.
  }

  stop(): void {
    this.#stopped = true
    this.client.disconnect()
  }

  /** Replaces an open connection. The caller logs the reason. */
  reconnect(): void {
    if (this.#stopped || this.#reconnecting || !this.isReady) return
    this.#reconnecting = true
    this.client.disconnect(true)
  }

  #connected(): void {
    const client: RedisClient = this.client
    if (client instanceof Cluster) void settlePrimaries(client).then(() => this.#becameReady())
    else this.#becameReady()
  }

  #becameReady(): void {
    if (this.isReady || this.client.status !== 'ready') return
    this.#ready = true
    this.#events.onReady?.()
  }

  #lost(): void {
    this.#ready = false
    if (!this.#reconnecting) this.#failed(new Error('The connection was closed'))
    this.#reconnecting = false
    this.#events.onLost?.()
  }

  #failed(error: Error): void {
    if (!this.#stopped) this.#events.onTrouble?.(error)
  }
}

/** A connection to one server, which a subscription needs. */
export type ServerConnection = RedisConnection<Redis>

/** For a cluster, the error of the last node that failed: it says more than `all nodes failed`. */
function causeIn(error: Error & { lastNodeError?: unknown }): Error {
  return error.lastNodeError instanceof Error ? error.lastNodeError : error
}
