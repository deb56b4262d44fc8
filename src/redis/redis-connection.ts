import type { Writable } from 'node:stream'
import { Cluster, type Redis } from 'ioredis'
import { classifyRedisError, type RedisFailure } from '../domain/redis-failure.ts'
import type { Metrics } from '../observability/metrics/metrics.ts'
import { isReplyError } from './answering.ts'
import { findSocket, type RedisClient, settlePrimaries } from './clients.ts'
import type { Endpoint } from './endpoint.ts'
import { reconnectDelayMs } from './options.ts'

/** The events of a connection, the same for every kind of Redis. */
export interface ConnectionEvents {
  onReady?(): void
  /** The connection closed or could not be opened. */
  onLost?(): void
  /** Receives the error and why the connection fails. Not called after `stop()` or `reconnect()`. */
  onTrouble?(error: Error, failure: RedisFailure): void
  /** The client is about to reconnect. */
  onReconnecting?(): void
}

/** Longest pause between two attempts while the failure is one that an operator has to cure. */
const REFUSED_RETRY_MAX_MS = 5_000

/**
 * A client and its events. It reconnects without limit, in the background, at growing intervals until the server answers
 * well: an open connection alone shows nothing.
 */
export class RedisConnection<Client extends RedisClient = RedisClient> {
  readonly client: Client
  readonly #events: ConnectionEvents
  readonly #trouble: ConnectionTrouble
  #ready = false
  #stopped = false
  #reconnecting = false
  /** Opened, or tried to be, since the last good answer. */
  #attempts = 0
  /** The server rejected a command of the handshake after which ioredis goes on, such as the choice of a database. */
  #isUnusable = false

  /** @param failing counts the connection while it fails */
  constructor(client: Client, events: ConnectionEvents, failing: FailingGauge | null = null) {
    this.client = client
    this.#events = events
    this.#trouble = new ConnectionTrouble(failing)
    const emitter: RedisClient = client
    if (!(emitter instanceof Cluster)) emitter.options.retryStrategy = () => this.#nextDelayMs()
    // Without a listener ioredis prints errors as plain text among the JSON of the log.
    emitter.on('error', (error: Error) => this.#failed(causeIn(error)))
    emitter.on('close', () => this.#lost())
    emitter.on('ready', () => this.#connected())
    emitter.on('reconnecting', () => events.onReconnecting?.())
  }

  get isReady(): boolean {
    return this.#ready && this.client.status === 'ready'
  }

  /** Why it fails; null since the last good answer. */
  get failure(): RedisFailure | null {
    return this.#trouble.failure
  }

  /** The server has answered a command well. */
  answered(): void {
    this.#attempts = 0
    this.#trouble.clear()
  }

  /** A command failed. @returns why the connection fails */
  refused(error: Error): RedisFailure {
    return this.#trouble.note(error)
  }

  /** Replaces the connection after each error that a new connection may not get. */
  reconnectOnRefusal(): this {
    const client: RedisClient = this.client
    if (!(client instanceof Cluster)) {
      client.options.reconnectOnError = error => classifyRedisError(error, true).needsConnection
    }
    return this
  }

  /** The server it is connected to; null while disconnected and for a cluster. */
  get server(): Endpoint | null {
    const client: RedisClient = this.client
    if (client instanceof Cluster || !this.isReady) return null
    const { remoteAddress, remotePort } = findSocket(client) ?? {}
    return remoteAddress === undefined || remotePort === undefined
      ? null
      : { host: remoteAddress, port: remotePort }
  }

  /** Call before a command that is one of many. No effect in a cluster, where each node has its own socket. */
  writeTogether(): void {
    const client: RedisClient = this.client
    const socket = this.isReady && !(client instanceof Cluster) ? findSocket(client) : null
    if (socket !== null) writeTogether(socket)
  }

  /** Stops reading from the socket. A new connection reads again. */
  pauseReading(): void {
    const client: RedisClient = this.client
    if (!(client instanceof Cluster)) findSocket(client)?.pause()
  }

  resumeReading(): void {
    const client: RedisClient = this.client
    if (!(client instanceof Cluster)) findSocket(client)?.resume()
  }

  start(): void {
    this.client.connect().catch(() => {}) // The listeners report it, and ioredis retries.
  }

  stop(): void {
    this.#stopped = true
    this.#trouble.clear()
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
    if (this.#isUnusable) {
      this.client.disconnect(true)
      return
    }
    this.#ready = true
    this.#events.onReady?.()
  }

  #lost(): void {
    this.#ready = false
    this.#isUnusable = false
    if (!this.#reconnecting) this.#failed(new Error('The connection was closed'))
    this.#reconnecting = false
    this.#events.onLost?.()
  }

  #failed(error: Error & { readonly command?: { readonly name?: unknown } }): void {
    // Otherwise ioredis goes on with database 0.
    if (error.command?.name === 'select') this.#isUnusable = true
    if (this.#stopped) return
    const failure = this.#trouble.note(error)
    this.#events.onTrouble?.(error, failure)
  }

  #nextDelayMs(): number {
    const maxMs = this.failure?.needsOperator === true ? REFUSED_RETRY_MAX_MS : undefined
    return reconnectDelayMs(++this.#attempts, Math.random, maxMs)
  }
}

/** A connection to one server, which a subscription needs. */
export type ServerConnection = RedisConnection<Redis>

/** For a cluster, the error of the last node that failed: it says more than `all nodes failed`. */
function causeIn(error: Error & { lastNodeError?: unknown }): Error {
  return error.lastNodeError instanceof Error ? error.lastNodeError : error
}

/** The metric that counts failing connections by cause. */
type FailingGauge = Metrics['redisFailing']

/**
 * Why a connection fails, from its errors since the last good answer. That a connection closed says less than an error before it, such as
 * a rejected password, so it replaces none.
 */
class ConnectionTrouble {
  readonly #gauge: FailingGauge | null
  #failure: RedisFailure | null = null

  constructor(gauge: FailingGauge | null) {
    this.#gauge = gauge
  }

  /** Null after a good answer. */
  get failure(): RedisFailure | null {
    return this.#failure
  }

  /** @returns why the connection fails now */
  note(error: Error): RedisFailure {
    const found = classifyRedisError(error, isReplyError(error))
    const isVague = found.cause === 'closed' || found.cause === 'other'
    if (this.#failure === null || !isVague) this.#set(found)
    return this.#failure ?? found
  }

  clear(): void {
    if (this.#failure !== null) this.#set(null)
  }

  #set(failure: RedisFailure | null): void {
    const before = this.#failure?.cause
    this.#failure = failure
    if (before === failure?.cause) return
    if (before !== undefined) this.#gauge?.dec({ cause: before })
    if (failure !== null) this.#gauge?.inc({ cause: failure.cause })
  }
}

/** About one packet. Full packets are sent at once, so that Redis works on them during the turn. */
const PACKET_BYTES = 1_400

/**
 * Call before writing a command: sends it together with the commands written later in the same turn of the event loop.
 * Each separate write wakes the server once more, which costs more than the command.
 */
function writeTogether(socket: Writable): void {
  if (socket.writableCorked === 0) {
    socket.cork()
    setImmediate(() => socket.uncork())
  } else if (socket.writableLength >= PACKET_BYTES) {
    socket.uncork()
    socket.cork()
  }
}
