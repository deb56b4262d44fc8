import { EventEmitter } from 'node:events'
import type { Redis } from 'ioredis'
import { type ControlLogger, causeOf } from '../observability/control-logger.ts'
import type { Metrics } from '../observability/metrics/metrics.ts'
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
  /** Called whenever the connection is ready or lost. */
  readonly onUp: (isUp: boolean) => void
}

/** The part of an ioredis client that announcing needs. In a cluster it combines two clients. */
export interface AnnouncingRedis extends Pick<Redis, 'getrangeBuffer' | 'eval' | 'publish'> {
  readonly status: 'ready' | 'down'
  connect(): Promise<unknown>
  disconnect(): void
  on(event: 'ready', listener: () => void): unknown
}

/** The same connection twice, except in a cluster, where one node publishes for all. */
interface Connections {
  readonly records: RedisConnection
  readonly publisher: RedisConnection<Redis>
}

/**
 * The console's connection to Redis. It fails fast and does not queue commands: unpublished changes stay in the outbox, and
 * a late heartbeat would not count. Call `connect()` to open it.
 */
export function createRedisConnection(parts: RedisConnectionParts): AnnouncingRedis {
  const state = reportState(parts)
  const emitter = new EventEmitter()
  const status = () => (records.isReady && publisher.isReady ? 'ready' : 'down')
  const { records, publisher } = makeConnections(parts, {
    onTrouble: state.onTrouble,
    onReady() {
      if (status() === 'down') return
      state.onReady()
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
  // A primary that became a replica may keep its connections open but rejects writes: find the new primary.
  client.options.reconnectOnError = error => error.message.startsWith('READONLY ')
  const connection = new RedisConnection(client, events)
  return { records: connection, publisher: connection }
}

/**
 * Publishes changes and heartbeats through the same node while it belongs to the cluster: a heartbeat shows that changes
 * arrive only if both take the same path.
 */
function connectToCluster({ config, onReload }: RedisConnectionParts, events: ConnectionEvents): Connections {
  const cluster = createClusterClient(config, onReload)
  const find = findServer(config, () => nodesOf(cluster))
  const records = new RedisConnection(cluster, events)
  const publisher = new RedisConnection(createServerClient(config, find, onReload), events)
  // A message published at a node that left the cluster reaches no gateway.
  cluster.on('-node', (node: Redis) => {
    const { host = '', port = 0 } = node.options
    if (isSameServer({ host, port }, publisher.server)) publisher.reconnect()
  })
  return { records, publisher }
}

/** Logs one line for each change of state, so that a Redis outage of an hour does not fill the log. */
function reportState({ metrics, logger, onUp }: RedisConnectionParts) {
  let state: 'unknown' | 'up' | 'down' = 'unknown'
  return {
    onTrouble(error: Error) {
      if (state === 'down') return
      state = 'down'
      onUp(false)
      logger.warn({ cause: causeOf(error) }, 'redis connection failed, changes wait in the database')
    },
    onReady() {
      if (state === 'down') metrics.redisReconnects.inc()
      state = 'up'
      onUp(true)
      logger.info('redis connected')
    },
  }
}
