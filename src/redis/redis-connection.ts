import { Cluster, type Redis } from 'ioredis'
import { primariesTried, type RedisClient, socketOf } from './clients.ts'
import type { Endpoint } from './endpoint.ts'
import { writeTogether } from './write-together.ts'

/** What happens to a connection, in the same words for each kind of Redis. */
export interface ConnectionEvents {
  onReady?(): void
  /** It was closed, or could not be made. */
  onLost?(): void
  /** Why; not for a connection that was given up on purpose. */
  onTrouble?(error: Error): void
  /** It is about to be made again. */
  onAgain?(): void
}

/** A client, and what is told of it. It comes up by itself, for ever; nobody waits for it. */
export class RedisConnection<Client extends RedisClient = RedisClient> {
  readonly client: Client
  readonly #events: ConnectionEvents
  #ready = false
  #stopped = false
  #remaking = false

  constructor(client: Client, events: ConnectionEvents) {
    this.client = client
    this.#events = events
    const emitter: RedisClient = client
    // Without a listener ioredis prints errors as plain text among the JSON of the log.
    emitter.on('error', (error: Error) => this.#failed(causeIn(error)))
    emitter.on('close', () => this.#lost())
    emitter.on('ready', () => this.#connected())
    emitter.on('reconnecting', () => events.onAgain?.())
  }

  get isReady(): boolean {
    return this.#ready && this.client.status === 'ready'
  }

  /** The server at the other end; null where there is none, or no single one. */
  get server(): Endpoint | null {
    const client: RedisClient = this.client
    if (client instanceof Cluster || !this.isReady) return null
    const { remoteAddress, remotePort } = socketOf(client) ?? {}
    return remoteAddress === undefined || remotePort === undefined
      ? null
      : { host: remoteAddress, port: remotePort }
  }

  /** To be called before a command that is one of many. The nodes of a cluster have sockets of their own. */
  writeTogether(): void {
    const client: RedisClient = this.client
    const socket = this.isReady && !(client instanceof Cluster) ? socketOf(client) : null
    if (socket !== null) writeTogether(socket)
  }

  /** Leaves what the server sends in the socket. A connection that is made anew reads again. */
  pauseReading(): void {
    const client: RedisClient = this.client
    if (!(client instanceof Cluster)) socketOf(client)?.pause()
  }

  resumeReading(): void {
    const client: RedisClient = this.client
    if (!(client instanceof Cluster)) socketOf(client)?.resume()
  }

  start(): void {
    this.client.connect().catch(() => {}) // Told by the listeners, and tried again without end.
  }

  stop(): void {
    this.#stopped = true
    this.client.disconnect()
  }

  /** For a connection that is open and of no use; who asks for it tells why. */
  remake(): void {
    if (this.#stopped || this.#remaking || !this.isReady) return
    this.#remaking = true
    this.client.disconnect(true)
  }

  #connected(): void {
    const client: RedisClient = this.client
    if (client instanceof Cluster) void primariesTried(client).then(() => this.#becameReady())
    else this.#becameReady()
  }

  #becameReady(): void {
    if (this.isReady || this.client.status !== 'ready') return
    this.#ready = true
    this.#events.onReady?.()
  }

  #lost(): void {
    this.#ready = false
    if (!this.#remaking) this.#failed(new Error('The connection was closed'))
    this.#remaking = false
    this.#events.onLost?.()
  }

  #failed(error: Error): void {
    if (!this.#stopped) this.#events.onTrouble?.(error)
  }
}

/** To one server, as a subscription needs it. */
export type ServerConnection = RedisConnection<Redis>

/** That all nodes failed says little; why the last one did says more. */
function causeIn(error: Error & { lastNodeError?: unknown }): Error {
  return error.lastNodeError instanceof Error ? error.lastNodeError : error
}
