import { readFileSync } from 'node:fs'
import { Redis } from 'ioredis'
import type { Config } from '../../config/schema.ts'
import type { Metrics } from '../../observability/metrics.ts'
import { type ControlLogger, causeOf } from '../control-logger.ts'
import { backoffMs } from '../timers.ts'

/** A connection that says nothing for so long is dead, whatever the kernel believes. Beats see to it that it speaks. */
const SILENCE_TIMEOUT_MS = 2000

export interface RedisConnectionParts {
  readonly url: string
  readonly config: Config['redis']
  readonly metrics: Metrics
  readonly logger: ControlLogger
  /** From 0 to 1, for jitter. */
  readonly random: () => number
}

/**
 * Fails fast and queues nothing: what couldn't be told is in the outbox, and a beat is worth nothing later. Not
 * connected yet.
 */
export function createRedisConnection(parts: RedisConnectionParts): Redis {
  const { url, config, random } = parts
  const connection = new Redis(url, {
    ...(config.username === undefined ? {} : { username: config.username }),
    ...(config.password === undefined ? {} : { password: config.password }),
    ...(config.caFile === undefined ? {} : { tls: { ca: readFileSync(config.caFile) } }),
    lazyConnect: true,
    protocol: 2,
    connectTimeout: config.connectTimeoutMs,
    commandTimeout: config.commandTimeoutMs,
    socketTimeout: SILENCE_TIMEOUT_MS,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    // Both ask for more rights than the work needs (INFO, CLIENT).
    enableReadyCheck: false,
    disableClientInfo: true,
    retryStrategy: attempt => backoffMs(attempt, random()),
  })
  watchState(connection, parts)
  return connection
}

/** One line for each change of state: a Redis that is gone for an hour must not fill the log. */
function watchState(connection: Redis, { metrics, logger }: RedisConnectionParts): void {
  let state: 'unknown' | 'up' | 'down' = 'unknown'
  const goDown = (cause: string) => {
    if (state === 'down') return
    state = 'down'
    metrics.redisUp.set(0)
    logger.warn({ cause }, 'no connection to Redis; changes are kept in the database')
  }
  connection.on('error', error => goDown(causeOf(error)))
  connection.on('close', () => goDown('the connection was closed'))
  connection.on('ready', () => {
    if (state === 'down') metrics.redisReconnects.inc()
    state = 'up'
    metrics.redisUp.set(1)
    logger.info('connected to Redis')
  })
}
