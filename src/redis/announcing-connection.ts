import { EventEmitter } from 'node:events'
import { Cluster, type Redis } from 'ioredis'
import { type Clock, systemClock, systemTimers, type Timers } from '../domain/clock.ts'
import type { RedisFailure } from '../domain/redis-failure.ts'
import { CHANGES_CHANNEL, REDIS_PROBE_KEYS } from '../domain/wire.ts'
import { type ControlLogger, describeError } from '../observability/control-logger.ts'
import { COMMAND_OUTCOMES, type Metrics } from '../observability/metrics/metrics.ts'
import { Answering, anyGoodAnswer, isReplyError, TIMER_SLACK_MS } from './answering.ts'
import {
  createClusterClient,
  listNodes,
  type OnRedisReload,
  REDIS_NETWORK,
  type RedisClient,
  type RedisNetwork,
} from './clients.ts'
import { type Endpoint, isSameServer } from './endpoint.ts'
import { type RedisSettings, requireTopology } from './options.ts'
import { type ConnectionEvents, RedisConnection } from './redis-connection.ts'
import { PrimaryCheck } from './sentinels.ts'
import { NEED, WriteCounter } from './write-counter.ts'

interface RedisConnectionParts {
  readonly config: RedisSettings
  readonly metrics: Metrics
  readonly logger: ControlLogger
  readonly onReload?: OnRedisReload
  /** Called whenever the connection is ready or lost. */
  readonly onUp: (isUp: boolean) => void
  /** Called with each error, and why the connection fails. */
  readonly onTrouble?: (error: Error, failure: RedisFailure) => void
  /** Called with the time to the server and back, before the connection is ready. */
  readonly onRoundTrip?: (ms: number) => void
  readonly network?: RedisNetwork
  readonly timers?: Timers
  readonly clock?: Clock
}

/** A primary that was replaced may keep its connections: until it is noticed, changes are announced to the wrong server. */
const PRIMARY_CHECK_MS = 500
/** A server that fails for one cause and then another must not fill the log. */
const MIN_LOG_INTERVAL_MS = 5_000

/**
 * Writes nothing, since SET with XX leaves a missing key missing, and is refused whenever the script that announces would be: without the
 * rights, by a replica, by a server that is full or cannot save, and, as its keys are far apart, by one node of a cluster.
 */
const PROBE = `${NEED}
return need('GETRANGE', KEYS[1], 0, 0) or need('SET', KEYS[1], '') or need('PUBLISH', ARGV[1], '')
  or redis.call('SET', KEYS[1], '', 'XX')`
/** The part of an ioredis client that announcing needs. In a cluster it combines two clients. */
export interface AnnouncingRedis {
  /** `ready` once the server has answered well on this connection; `failed` while it answers with errors. */
  readonly status: 'ready' | 'down' | 'failed'
  /** Whether records and messages go to the same server: not in a cluster. */
  readonly isOneServer: boolean
  /** Whether a majority of the Sentinels, asked after this call, still names the server; true without Sentinels. */
  confirm(): Promise<boolean>
  getrangeBuffer(key: string, start: number, end: number): Promise<Buffer>
  callBuffer(command: 'eval', ...values: (string | number | Buffer)[]): Promise<unknown>
  /** @throws if Redis has lost confirmed writes: then nothing is published */
  publish(channel: string, message: string): Promise<unknown>
  connect(): Promise<unknown>
  disconnect(): void
  /**
   * `ready`: on a new connection, and whenever its server may lack the latest writes. `otherSilent`: another console writes no more;
   * what it wrote last may be lost.
   */
  on(event: 'ready' | 'otherSilent', listener: () => void): unknown
}

/** The same connection twice, except in a cluster, where one node publishes for all. */
interface Connections {
  readonly records: RedisConnection
  readonly publisher: RedisConnection<Redis>
  /** Null without Sentinels. */
  readonly check: PrimaryCheck | null
}

/**
 * The console's connection to Redis. It fails fast and does not queue commands: unpublished changes stay in the outbox, and
 * a late heartbeat would not count. Call `connect()` to open it.
 */
export function createRedisConnection(parts: RedisConnectionParts): AnnouncingRedis {
  const { timers = systemTimers, clock = systemClock, onRoundTrip } = parts
  const state = reportState(parts)
  const emitter = new EventEmitter()
  const isOpen = () => records.isReady && publisher.isReady
  const failing = (error: Error) => state.onTrouble(error, records.refused(error))
  const { records, publisher, check } = makeConnections(parts, {
    onTrouble: state.onTrouble,
    onReady() {
      if (isOpen()) answering.opened()
    },
    onPrimaries() {
      if (answering.isAnswering) emitter.emit('ready')
    },
  })
  const { client }: { client: RedisClient } = records
  const isCluster = client instanceof Cluster
  const answering = new Answering({
    probe: () => probe(client),
    confirm: async () => (await check?.confirm()) ?? true,
    isOpen,
    isChecked: !isCluster,
    timers,
    clock,
    onFailing: failing,
    onAnswering(isNew, roundTripMs) {
      onRoundTrip?.(roundTripMs)
      for (const connection of all) connection.answered()
      state.onReady()
      if (isNew) writes.begin()
    },
  })
  const watch = watchCommands(parts, answering, isCluster)
  const writes = countWrites(parts, { records, publisher, watch }, event => emitter.emit(event))
  const all = [...new Set<RedisConnection>([records, publisher])]
  const confirm = async () => {
    const isConfirmed = (await check?.confirm()) ?? true
    if (!isConfirmed) answering.doubt(new Error('No majority of the Sentinels names this server'))
    return isConfirmed
  }
  const stopChecks = check === null ? () => {} : timers.every(PRIMARY_CHECK_MS, () => void confirm())
  return {
    get status() {
      if (answering.isAnswering) return 'ready'
      return records.failure?.isAnswer === true ? 'failed' : 'down'
    },
    connect: () => Promise.all(all.map(connection => connection.client.connect())),
    disconnect() {
      stopChecks()
      check?.stop()
      for (const connection of all) connection.stop()
    },
    on: (event, listener) => emitter.on(event, listener),
    getrangeBuffer: (key, start, end) => watch('getrange', () => client.getrangeBuffer(key, start, end)),
    isOneServer: all.length === 1,
    confirm,
    callBuffer: writes.callBuffer,
    publish: writes.publish,
  }
}

/** Those of announcing; `getrange` is that of a restore. */
type Command = 'eval' | 'publish' | 'getrange'

/** Counts commands and their times. At zero from the start, so that an alert on a rate fires on the first failure. */
function watchCommands({ metrics, config }: RedisConnectionParts, answering: Answering, isCluster: boolean) {
  const { redisCommands, redisCommandDuration } = metrics
  for (const command of ['eval', 'publish'] as const) {
    for (const outcome of COMMAND_OUTCOMES) redisCommands.inc({ command, outcome }, 0)
    redisCommandDuration.handle({ command })
  }
  return async <Reply>(command: Command, send: () => Promise<Reply>): Promise<Reply> => {
    const startedAtMs = performance.now()
    const elapsedMs = () => performance.now() - startedAtMs
    const count = (outcome: (typeof COMMAND_OUTCOMES)[number]) => {
      redisCommands.inc({ command, outcome })
      redisCommandDuration.handle({ command }).observe(elapsedMs() / 1000)
    }
    try {
      // The nodes of a cluster fail one by one: one that does not answer must not stop the others.
      const reply = await (isCluster ? send() : answering.watch(send))
      count('ok')
      return reply
    } catch (error) {
      if (isReplyError(error)) count('error')
      else if (!answering.isAnswering) count('unavailable')
      else count(elapsedMs() >= config.commandTimeoutMs - TIMER_SLACK_MS ? 'timeout' : 'error')
      throw error
    }
  }
}

interface WritesParts extends Pick<Connections, 'records' | 'publisher'> {
  readonly watch: ReturnType<typeof watchCommands>
}

/** @param emit called when the server may lack the latest writes, or those of another console */
function countWrites(
  { logger }: RedisConnectionParts,
  { records, publisher, watch }: WritesParts,
  emit: (event: 'ready' | 'otherSilent') => void,
): Pick<AnnouncingRedis, 'callBuffer' | 'publish'> & { begin(): void } {
  const { client }: { client: RedisClient } = records
  const counter = new WriteCounter({
    evaluate: (...values) => client.callBuffer('eval', ...values),
    onLost() {
      logger.warn('redis has lost confirmed writes on an open connection, announcing changes again')
      emit('ready')
    },
    onOtherSilent: () => emit('otherSilent'),
  })
  // The node of a cluster that has the counter lacks the records of the others.
  const isCounted = !(client instanceof Cluster)
  return {
    /** On a new connection. */
    begin() {
      counter.reset()
      emit('ready')
    },
    async callBuffer(command, ...values) {
      const send = () => client.callBuffer(command, ...values)
      if (!isCounted) return await watch(command, send)
      const [reply] = await watch(command, () => Promise.all([send(), counter.count(CHANGES_CHANNEL)]))
      return reply
    },
    async publish(channel, message) {
      if (!isCounted) return await watch('publish', () => publisher.client.publish(channel, message))
      const isPublished = await watch('publish', () => counter.count(channel, message))
      if (!isPublished) throw new Error('Redis has lost confirmed writes')
      return isPublished
    },
  }
}

/** In a cluster each node answers for its own keys alone. */
async function probe(client: RedisClient): Promise<void> {
  const ask = (keys: readonly string[]) =>
    client.callBuffer('eval', PROBE, keys.length, ...keys, CHANGES_CHANNEL)
  if (client instanceof Cluster) await anyGoodAnswer(REDIS_PROBE_KEYS.map(key => ask([key])))
  else await ask(REDIS_PROBE_KEYS)
}

interface AnnouncingEvents extends ConnectionEvents {
  /** A primary of a cluster was lost, or is connected anew: what has its records may lack the latest, as a server that reconnects. */
  onPrimaries(): void
}

function makeConnections(parts: RedisConnectionParts, events: AnnouncingEvents): Connections {
  const { config, metrics, onReload, network = REDIS_NETWORK, timers = systemTimers } = parts
  if (requireTopology(config).kind === 'cluster') return connectToCluster(parts, events)
  const find = network.findServer(config, undefined, onReload)
  let named: Endpoint | null = null
  const findAndNote = async () => {
    named = await find()
    return named
  }
  const client = network.createServerClient(config, findAndNote, onReload)
  // A primary that became a replica may keep its connections open but rejects writes: find the new primary.
  const connection = new RedisConnection(client, events, metrics.redisFailing).reconnectOnRefusal()
  const query = network.createPrimaryQuery(config, onReload)
  const check =
    query === null
      ? null
      : new PrimaryCheck({
          query,
          timers,
          connectedTo: () => (connection.isReady ? named : null),
          onOther: () => connection.reconnect(),
        })
  return { records: connection, publisher: connection, check }
}

/**
 * Publishes changes and heartbeats through the same node while it belongs to the cluster: a heartbeat shows that changes
 * arrive only if both take the same path.
 */
function connectToCluster(
  { config, metrics, onReload, network = REDIS_NETWORK }: RedisConnectionParts,
  events: AnnouncingEvents,
): Connections {
  const cluster = createClusterClient(config, onReload)
  const find = network.findServer(config, () => listNodes(cluster))
  const records = new RedisConnection(cluster, events, metrics.redisFailing)
  const publisher = new RedisConnection(
    network.createServerClient(config, find, onReload),
    events,
    metrics.redisFailing,
  )
  // A message published at a node that left the cluster reaches no gateway.
  cluster.on('-node', (node: Redis) => {
    const { host = '', port = 0 } = node.options
    if (isSameServer({ host, port }, publisher.server)) publisher.reconnect()
  })
  watchPrimaries(cluster, events.onPrimaries)
  return { records, publisher, check: null }
}

/** Among those that are connected. One that was promoted may have been connected before, as a replica. */
function watchPrimaries(cluster: Cluster, onOther: () => void): void {
  let known: ReadonlySet<Redis> = new Set()
  const compare = () => {
    const connected = new Set(cluster.nodes('master').filter(({ status }) => status === 'ready'))
    const isSame = connected.size === known.size && [...connected].every(node => known.has(node))
    known = connected
    if (!isSame) onOther()
  }
  cluster.on('+node', (node: Redis) => node.on('ready', compare))
  for (const event of ['-node', 'refresh']) cluster.on(event, compare)
}

/** Logs one line for each change of state and each new cause, so that a Redis outage of an hour does not fill the log. */
function reportState({ metrics, logger, onUp, onTrouble, clock = systemClock }: RedisConnectionParts) {
  let state: 'unknown' | 'up' | 'down' = 'unknown'
  let logged: { readonly cause: string; readonly atMs: number } | null = null
  return {
    onTrouble(error: Error, failure: RedisFailure) {
      onTrouble?.(error, failure)
      const { cause, advice } = failure
      const atMs = clock.monotonicMs()
      if (state === 'down' && logged !== null) {
        if (cause === logged.cause || atMs - logged.atMs < MIN_LOG_INTERVAL_MS) return
      }
      logged = { cause, atMs }
      state = 'down'
      onUp(false)
      const fields = { cause: describeError(error), kind: cause, ...(advice === null ? {} : { advice }) }
      logger.warn(fields, 'redis connection failed, changes wait in the database')
    },
    onReady() {
      if (state === 'down') metrics.redisReconnects.inc()
      state = 'up'
      logged = null
      onUp(true)
      logger.info('redis connected')
    },
  }
}
