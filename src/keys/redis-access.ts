import type { KeyObject } from 'node:crypto'
import { type Clock, systemTimers, type TurnTimers } from '../domain/clock.ts'
import { FailureLog, type Log } from '../observability/failure-log.ts'
import type { Metrics } from '../observability/metrics/metrics.ts'
import {
  createClusterClient,
  listNodes,
  type OnRedisReload,
  REDIS_NETWORK,
  type RedisClient,
  type RedisNetwork,
} from '../redis/clients.ts'
import { type Endpoint, type FindServer, isSameServer } from '../redis/endpoint.ts'
import { type RedisSettings, requireTopology } from '../redis/options.ts'
import { type ConnectionEvents, RedisConnection, type ServerConnection } from '../redis/redis-connection.ts'
import type { InvalidationListener } from './invalidation/invalidation-listener.ts'
import { RedisSubscription } from './invalidation/redis-subscription.ts'
import type { KeyTier } from './tiers/key-store.ts'
import { MeasuredReader, ReaderHealth, RedisSkipped, RedisStore } from './tiers/redis-store.ts'

interface RedisAccessParts {
  readonly settings: RedisSettings
  readonly recordKeys: () => readonly KeyObject[] | null
  readonly onReload: OnRedisReload
  readonly invalidations: InvalidationListener
  readonly clock: Clock
  readonly timers?: TurnTimers
  readonly network?: RedisNetwork
  readonly metrics: Metrics
  readonly logger: Log
}

/** A gateway's connections to Redis: one that reads records, and one that is subscribed to the invalidation channel. */
export class RedisAccess {
  readonly tier: KeyTier
  readonly #parts: RedisAccessParts
  readonly #network: RedisNetwork
  readonly #subscriber: ServerConnection
  readonly #reader: RedisConnection
  readonly #readerHealth: ReaderHealth
  readonly #commands: MeasuredReader
  readonly #subscription: RedisSubscription
  readonly #isCluster: boolean
  readonly #readerFailures: FailureLog
  /** The server that the subscriber last connected to, with the name in its certificate. */
  #subscribedAt: Endpoint | null = null
  #subscriberConnections = 0
  /** The last connection of the subscriber when that of the reader began. At the start both begin at once. */
  #readerBeganAfter = 1

  constructor(parts: RedisAccessParts) {
    const { settings, invalidations, clock, recordKeys, timers = systemTimers } = parts
    this.#parts = parts
    this.#network = parts.network ?? REDIS_NETWORK
    this.#isCluster = requireTopology(settings).kind === 'cluster'
    this.#readerFailures = this.#createFailureLog('redis reader')
    const { find, reader } = this.#isCluster ? this.#readNodes() : this.#readOneServer()
    this.#reader = reader
    this.#readerHealth = new ReaderHealth({
      connection: reader,
      isCluster: this.#isCluster,
      clock,
      failures: this.#readerFailures,
    })
    this.#commands = new MeasuredReader(reader, { ...parts, commandTimeoutMs: settings.commandTimeoutMs })
    this.#subscription = new RedisSubscription({
      listener: invalidations,
      clock,
      timers,
      failures: this.#createFailureLog('invalidation'),
    })
    const subscriber = this.#network.createServerClient(
      settings,
      async () => {
        this.#subscribedAt = await find()
        return this.#subscribedAt
      },
      parts.onReload,
    )
    const failures = this.#createFailureLog('redis subscriber')
    this.#subscriber = new RedisConnection(
      subscriber,
      {
        ...connectionEvents(failures, parts.metrics),
        onReady: () => {
          failures.succeeded()
          this.#subscriberConnections++
          this.#subscription.onReady()
        },
        onLost: () => this.#subscription.onLost(),
      },
      parts.metrics.redisFailing,
    )
    this.#subscription.attach(this.#subscriber)
    this.tier = new RedisStore({ read: key => this.#read(key) }, recordKeys)
  }

  /** Whether Redis answers lookups. */
  get isUp(): boolean {
    return this.#reader.isReady && this.#readerHealth.isAnswering
  }

  /** Whether it answers lookups or the subscription with errors. */
  get isFailing(): boolean {
    return [this.#reader, this.#subscriber].some(({ failure }) => failure?.isAnswer === true)
  }

  start(): void {
    this.#reader.start()
    this.#subscriber.start()
  }

  stop(): void {
    this.#reader.stop()
    this.#subscriber.stop()
  }

  /** Must be called a few times a second. */
  watch(): void {
    this.#subscription.watch()
    this.#readerHealth.watch()
    if (!this.#readsWhereItSubscribes()) this.#reader.reconnect()
  }

  /** Every node of a cluster receives what is published at any other; the reader knows which nodes there are. */
  #readNodes(): { find: FindServer; reader: RedisConnection } {
    const cluster = createClusterClient(this.#parts.settings, this.#parts.onReload)
    return {
      find: this.#network.findServer(this.#parts.settings, () => listNodes(cluster)),
      reader: this.#connectReader(cluster),
    }
  }

  /** Records are read from the server to which the gateway is subscribed. */
  #readOneServer(): { find: FindServer; reader: RedisConnection } {
    const { settings, onReload } = this.#parts
    const find = this.#network.findServer(settings, undefined, onReload)
    const client = this.#network.createServerClient(
      settings,
      () => {
        this.#readerBeganAfter = Math.max(1, this.#subscriberConnections)
        return this.#subscribedServer() ?? find()
      },
      onReload,
    )
    return { find, reader: this.#connectReader(client) }
  }

  #connectReader(client: RedisClient): RedisConnection {
    const { metrics } = this.#parts
    const events = connectionEvents(this.#readerFailures, metrics)
    return new RedisConnection(
      client,
      { ...events, onReady: () => this.#readerHealth.opened() },
      metrics.redisFailing,
    ).reconnectOnRefusal()
  }

  async #read(key: string): Promise<Uint8Array> {
    if (this.#readsWhereItSubscribes())
      return await this.#readerHealth.watched(() => this.#commands.read(key))
    this.#reader.reconnect()
    throw new RedisSkipped('The reader may be connected to another server than the subscriber; reconnecting')
  }

  /**
   * A heartbeat shows only that the records of its own server are current: a primary that was replaced while it was frozen resumes with
   * old records. In a cluster the other nodes demote such a node at once. A proxy has one address for all servers, and may lead a new
   * connection to another one than those that are open: only a connection that began after that of the subscriber counts.
   */
  #readsWhereItSubscribes(): boolean {
    if (this.#isCluster || !this.#parts.invalidations.isConnected()) return true
    if (this.#readerBeganAfter < this.#subscriberConnections) return false
    return isSameServer(this.#reader.server, this.#subscriber.server)
  }

  #subscribedServer(): Endpoint | null {
    const { server } = this.#subscriber
    if (server === null || this.#subscribedAt === null || !this.#parts.invalidations.isConnected())
      return null
    return { ...server, servername: this.#subscribedAt.servername ?? this.#subscribedAt.host }
  }

  #createFailureLog(part: string): FailureLog {
    return new FailureLog(part, this.#parts.logger, this.#parts.clock)
  }
}

/** Logs what goes wrong with a connection, and counts its reconnections. */
function connectionEvents(
  failures: FailureLog,
  metrics: Metrics,
): Pick<ConnectionEvents, 'onTrouble' | 'onReconnecting'> {
  return {
    onTrouble: (error, failure) => failures.failed(error, failure),
    onReconnecting: () => metrics.redisReconnects.inc(),
  }
}
