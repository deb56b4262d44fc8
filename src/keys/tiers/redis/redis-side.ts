import type { KeyObject } from 'node:crypto'
import type { Redis } from 'ioredis'
import type { Clock } from '../../../domain/clock.ts'
import type { Metrics } from '../../../observability/metrics.ts'
import { type Log, TroubleLog } from '../../../observability/trouble-log.ts'
import {
  createClusterClient,
  createServerClient,
  findServer,
  nodesOf,
  type OnRedisReload,
} from '../../../redis/clients.ts'
import { type Endpoint, type FindServer, isSameServer } from '../../../redis/endpoint.ts'
import { type RedisSettings, topologyOf } from '../../../redis/options.ts'
import { type ConnectionEvents, RedisConnection } from '../../../redis/redis-connection.ts'
import type { Changes } from '../../invalidation/invalidation-listener.ts'
import { RedisChangeSource } from '../../invalidation/redis-subscription.ts'
import type { KeyTier } from '../../key-store.ts'
import { RedisReader } from './redis-reader.ts'
import { NotAsked, RedisStore } from './redis-store.ts'

export interface RedisSideParts {
  readonly settings: RedisSettings
  readonly recordKeys: () => readonly KeyObject[] | null
  readonly onReload: OnRedisReload
  readonly changes: Changes
  readonly clock: Clock
  readonly metrics: Metrics
  readonly logger: Log
}

/** All that a gateway has to do with Redis: what reads, and one connection that hears. */
export class RedisSide {
  readonly tier: KeyTier
  readonly #parts: RedisSideParts
  readonly #subscriber: RedisConnection<Redis>
  readonly #reader: RedisConnection
  readonly #commands: RedisReader
  readonly #source: RedisChangeSource
  readonly #isCluster: boolean
  /** Where the subscriber was sent, by the name that its certificate is of. */
  #sentTo: Endpoint | null = null

  constructor(parts: RedisSideParts) {
    const { settings, changes, clock, recordKeys } = parts
    this.#parts = parts
    this.#isCluster = topologyOf(settings).kind === 'cluster'
    const { find, reader } = this.#isCluster ? this.#readNodes() : this.#readOneServer()
    this.#reader = reader
    this.#commands = new RedisReader(reader, { ...parts, commandTimeoutMs: settings.commandTimeoutMs })
    this.#source = new RedisChangeSource({ changes, clock, trouble: this.#troubleOf('changes') })
    const subscriber = createServerClient(
      settings,
      async () => {
        this.#sentTo = await find()
        return this.#sentTo
      },
      parts.onReload,
    )
    this.#subscriber = new RedisConnection(subscriber, this.#eventsOf('redis subscriber', this.#source))
    this.#source.attach(this.#subscriber)
    this.tier = new RedisStore({ read: key => this.#read(key) }, recordKeys)
  }

  get isUp(): boolean {
    return this.#reader.isReady
  }

  start(): void {
    this.#reader.start()
    this.#subscriber.start()
  }

  stop(): void {
    this.#reader.stop()
    this.#subscriber.stop()
  }

  /** To be called a few times a second. */
  watch(): void {
    this.#source.watch()
    if (!this.#isVouchedFor()) this.#reader.remake()
  }

  /** Any node hears what is published at any other; which of them there are is what the reader has learnt. */
  #readNodes(): { find: FindServer; reader: RedisConnection } {
    const cluster = createClusterClient(this.#parts.settings, this.#parts.onReload)
    return {
      find: findServer(this.#parts.settings, () => nodesOf(cluster)),
      reader: new RedisConnection(cluster, this.#eventsOf('redis reader')),
    }
  }

  /** Where changes are heard is where records are read. */
  #readOneServer(): { find: FindServer; reader: RedisConnection } {
    const { settings, onReload } = this.#parts
    const find = findServer(settings, undefined, onReload)
    const client = createServerClient(settings, () => this.#heardAt() ?? find(), onReload)
    return { find, reader: new RedisConnection(client, this.#eventsOf('redis reader')) }
  }

  async #read(key: string): Promise<Uint8Array> {
    if (this.#isVouchedFor()) return await this.#commands.read(key)
    this.#reader.remake()
    throw new NotAsked('Redis is read at another server than the one where changes are heard')
  }

  /**
   * What is heard vouches for what is read only where both come from one server: a primary that was replaced while it
   * was frozen wakes up with the old records. In a cluster the others tell such a node at once what it is no more.
   */
  #isVouchedFor(): boolean {
    if (this.#isCluster || !this.#parts.changes.isHearing()) return true
    return isSameServer(this.#reader.server, this.#subscriber.server)
  }

  #heardAt(): Endpoint | null {
    const { server } = this.#subscriber
    if (server === null || this.#sentTo === null || !this.#parts.changes.isHearing()) return null
    return { ...server, servername: this.#sentTo.servername ?? this.#sentTo.host }
  }

  #eventsOf(part: string, more: Pick<ConnectionEvents, 'onReady' | 'onLost'> = {}): ConnectionEvents {
    const trouble = this.#troubleOf(part)
    return {
      onReady: () => {
        trouble.works()
        more.onReady?.()
      },
      onLost: () => more.onLost?.(),
      onTrouble: error => trouble.failed(error),
      onAgain: () => this.#parts.metrics.redisReconnects.inc(),
    }
  }

  #troubleOf(part: string): TroubleLog {
    return new TroubleLog(part, this.#parts.logger, this.#parts.clock)
  }
}
