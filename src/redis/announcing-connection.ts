import { EventEmitter } from 'node:events'
import type { Redis } from 'ioredis'
import { type ControlLogger, causeOf } from '../observability/control-logger.ts'
import type { Metrics } from '../observability/metrics.ts'
import {
  createClusterClient,
  createServerClient,
  findServer,
  nodesOf,
  type OnRedisReload,
  type RedisClient,
} from './clients.ts'
import { isSameServer } from './endpoint.ts'
import { type RedisSettings, topologyOf } from './options.ts'
import { type ConnectionEvents, RedisConnection } from './redis-connection.ts'

export interface RedisConnectionParts {
  readonly config: RedisSettings
  readonly metrics: Metrics
  readonly logger: ControlLogger
  readonly onReload?: OnRedisReload
}

/** As much of ioredis as announcing needs. In a cluster two clients stand behind it. */
export interface AnnouncingRedis extends Pick<Redis, 'getrangeBuffer' | 'eval' | 'publish'> {
  readonly status: 'ready' | 'down'
  connect(): Promise<unknown>
  disconnect(): void
  on(event: 'ready', listener: () => void): unknown
}

/** What keeps records, and what publishes; but in a cluster they are one. */
interface Connections {
  readonly records: RedisConnection
  readonly publisher: RedisConnection<Redis>
}

/**
 * Fails fast and queues nothing: what couldn't be told is in the outbox, and a beat is worth nothing later. Not
 * connected yet.
 */
export function createRedisConnection(parts: RedisConnectionParts): AnnouncingRedis {
  const told = tellOfState(parts)
  const emitter = new EventEmitter()
  const status = () => (records.isReady && publisher.isReady ? 'ready' : 'down')
  const { records, publisher } = makeConnections(parts, {
    onTrouble: told.onTrouble,
    onReady() {
      if (status() === 'down') return
      told.onReady()
      emitter.emit('ready')
    },
  })
  const all = [...new Set<RedisConnection>([records, publisher])]
  const { client }: { client: RedisClient } = records
  return {
    get status() {
      return status()
    },
    connect: () => Promise.all(all.map(connection => connection.client.connect())),
    disconnect() {
      for (const connection of all) connection.stop()
    },
    on: (event, listener) => emitter.on(event, listener),
    getrangeBuffer: client.getrangeBuffer.bind(client),
    eval: client.eval.bind(client),
    publish: publisher.client.publish.bind(publisher.client),
  }
}

function makeConnections(parts: RedisConnectionParts, events: ConnectionEvents): Connections {
  const { config, onReload } = parts
  if (topologyOf(config).kind === 'cluster') return connectToCluster(parts, events)
  const client = createServerClient(config, findServer(config, undefined, onReload), onReload)
  // A primary that became a replica may keep its connections, and takes no record any more: who is the primary now?
  client.options.reconnectOnError = error => error.message.startsWith('READONLY ')
  const connection = new RedisConnection(client, events)
  return { records: connection, publisher: connection }
}

/**
 * Changes and heartbeats are published at the same node, as long as it is there: a heartbeat proves something only to a
 * gateway that receives the changes by the same way.
 */
function connectToCluster({ config, onReload }: RedisConnectionParts, events: ConnectionEvents): Connections {
  const cluster = createClusterClient(config, onReload)
  const find = findServer(config, () => nodesOf(cluster))
  const records = new RedisConnection(cluster, events)
  const publisher = new RedisConnection(createServerClient(config, find, onReload), events)
  // A node that is none of the cluster any more would publish to nobody.
  cluster.on('-node', (node: Redis) => {
    const { host = '', port = 0 } = node.options
    if (isSameServer({ host, port }, publisher.server)) publisher.remake()
  })
  return { records, publisher }
}

/** One line for each change of state: a Redis that is gone for an hour must not fill the log. */
function tellOfState({ metrics, logger }: RedisConnectionParts) {
  let state: 'unknown' | 'up' | 'down' = 'unknown'
  return {
    onTrouble(error: Error) {
      if (state === 'down') return
      state = 'down'
      metrics.redisUp.set(0)
      logger.warn({ cause: causeOf(error) }, 'no connection to Redis; changes are kept in the database')
    },
    onReady() {
      if (state === 'down') metrics.redisReconnects.inc()
      state = 'up'
      metrics.redisUp.set(1)
      logger.info('connected to Redis')
    },
  }
}
