import type { Socket } from 'node:net'
import type { Config } from '../config/schema/schema.ts'
import { isMarkedRedis, readCounters } from '../console/announcing/index.ts'
import { readDatabase } from '../console/platform/open-database.ts'
import { listPolicies } from '../domain/rate-limit.ts'
import { findRedisTopology } from '../domain/redis-address.ts'
import type { RedisFailure } from '../domain/redis-failure.ts'
import { DEFAULT_REGION } from '../domain/region.ts'
import { CHANGES_CHANNEL, REDIS_PROBE_KEYS } from '../domain/wire.ts'
import { describeError, SILENT } from '../observability/control-logger.ts'
import { asError } from '../observability/failure-log.ts'
import { createMetrics } from '../observability/metrics/metrics.ts'
import { hostAndPort } from '../outgoing/connect.ts'
import { type AnnouncingRedis, createRedisConnection } from '../redis/announcing-connection.ts'
import { anyGoodAnswer } from '../redis/answering.ts'
import {
  createCommandClient,
  createServerClient,
  findServer,
  findSocket,
  REDIS_NETWORK,
  type RedisClient,
} from '../redis/clients.ts'
import { parseEndpoint, REDIS_PORT, SENTINEL_PORT } from '../redis/endpoint.ts'
import { patientSettings, type RedisSettings, requireTopology } from '../redis/options.ts'
import { RedisConnection } from '../redis/redis-connection.ts'
import { NEED } from '../redis/write-counter.ts'
import { expiryNote, peerExpiry } from './certificates.ts'
import { ANSWER_MS, type Check, CheckFailure, type ClockReading, type Passed, readClock } from './finding.ts'

/** For a better answer after the first trouble: of another Sentinel or node, or the cause of a closed connection. */
const GRACE_MS = 1_000

/** What a gateway needs: to read records, to subscribe, and to count for rate limits. */
export function gatewayRedisChecks({ redis, limits }: Config): Check[] {
  if (findRedisTopology(redis) === null) return []
  return [{ name: 'redis', run: () => checkReading(redis, listPolicies(limits).length > 0) }]
}

/** What a console needs, in each region: to write records, to publish, and to read the counters of rate limits. */
export function consoleRedisChecks({ redis, regions, limits, database }: Config): Check[] {
  const readsCounters = listPolicies(limits).length > 0
  const places = regions.length > 0 ? regions : [{ name: null, redis }]
  return places
    .filter(place => findRedisTopology(place.redis) !== null)
    .map(place => {
      const name = place.name === null ? 'redis' : `redis (${place.name})`
      const isRecognised = (connection: AnnouncingRedis) =>
        readDatabase(database.url, tables =>
          isMarkedRedis(connection, tables, place.name ?? DEFAULT_REGION),
        ).catch(() => null)
      return { name, run: () => checkAnnouncing(place.redis, { readsCounters, isRecognised }) }
    })
}

async function checkReading(redis: RedisSettings, countsLimits: boolean): Promise<Passed> {
  const settings = patientSettings(redis)
  const isCluster = requireTopology(settings).kind === 'cluster'
  const reader = createCommandClient(settings)
  const subscriber = createServerClient(settings, findServer(settings))
  const readAll = () => {
    const answers = REDIS_PROBE_KEYS.map(key => reader.getrangeBuffer(key, 0, 0))
    return isCluster ? anyGoodAnswer(answers) : Promise.all(answers)
  }
  const read = async () => {
    await readAll()
    if (countsLimits) await reader.call('EVAL', LIMITS_PROBE, 1, LIMITS_KEY)
  }
  let expiresAtMs: number | null = null
  await Promise.all([
    requireAnswer(settings, events => openConnection(reader, read, events)),
    requireAnswer(settings, events => {
      const subscribe = async () => {
        await subscriber.subscribe(CHANGES_CHANNEL)
        expiresAtMs = peerExpiry(findSocket(subscriber))
      }
      return openConnection(subscriber, subscribe, events)
    }),
  ])
  const rights = countsLimits ? 'reading, subscribing and counting' : 'reading and subscribing'
  return { found: `${describePlace(settings)} allows ${rights}${expiryNote(expiresAtMs)}` }
}

interface Announcing {
  readonly readsCounters: boolean
  /** Whether it has every announcement; null if the database does not say. */
  readonly isRecognised: (connection: AnnouncingRedis) => Promise<boolean | null>
}

/** The console's own connection, which sends its probe. */
async function checkAnnouncing(
  redis: RedisSettings,
  { readsCounters, isRecognised }: Announcing,
): Promise<Passed> {
  const settings = patientSettings(redis)
  let socket: Socket | null = null
  let clock: ClockReading | undefined
  let lacksCounters = false
  let isOther = false
  const network = {
    ...REDIS_NETWORK,
    createServerClient: (...given: Parameters<typeof createServerClient>) => {
      const client = createServerClient(...given)
      return client.on('ready', () => {
        socket = findSocket(client)
      })
    },
  }
  await requireAnswer(settings, ({ answered, failing }) => {
    const connection = createRedisConnection({
      config: settings,
      metrics: createMetrics(),
      logger: SILENT,
      network,
      onUp: () => {},
      onTrouble: failing,
    })
    connection.on('ready', () => {
      const times = { sentAtMs: Date.now() }
      connection
        .callBuffer('eval', TIME_IF_PERMITTED, 1, ...REDIS_PROBE_KEYS.slice(0, 1))
        .then(reply => {
          const theirsMs = readTime(reply)
          clock = readClock('Redis', theirsMs, { ...times, receivedAtMs: Date.now() })
        })
        .then(async () => {
          lacksCounters =
            readsCounters && (await readCounters(connection, LIMITS_OF, [LIMITS_KEY])) === 'denied'
          isOther = (await isRecognised(connection)) === false
        })
        // The probe has shown the other rights that are needed.
        .catch(() => {})
        .finally(answered)
    })
    // The events report failures.
    connection.connect().catch(() => {})
    return () => connection.disconnect()
  })
  if (lacksCounters) {
    const advice = 'give its ACL user (~postern:limit:* +getrange +pttl) as well: see docs/redis.md'
    const found = 'does not allow reading the counters of rate limits, so pages do not show what is left'
    throw new CheckFailure(`${describePlace(settings)} ${found}`, advice)
  }
  const rights = readsCounters ? 'writing, publishing and reading counters' : 'writing and publishing'
  const found = `${describePlace(settings)} allows ${rights}${expiryNote(peerExpiry(socket))}${isOther ? OTHER_NOTE : ''}`
  return { found, clock }
}

/** Heartbeats begin afterwards. */
const OTHER_NOTE = ', lacks announcements: the console announces the changes of all keys to it when it starts'

/** The right is not among those that a console needs; asking in this way leaves no line in ACL LOG. */
const TIME_IF_PERMITTED = `
if redis.acl_check_cmd and not redis.acl_check_cmd('TIME') then return {} end
return redis.call('TIME')`

/** Seconds and microseconds. @returns ms; NaN if not permitted */
function readTime(reply: unknown): number {
  const [seconds, microseconds]: unknown[] = Array.isArray(reply) ? reply : []
  return seconds === undefined
    ? Number.NaN
    : Number(String(seconds)) * 1000 + Number(String(microseconds)) / 1000
}

const LIMITS_OF = 'doctor'
const LIMITS_KEY = `postern:limit:{${LIMITS_OF}}`
/** Asks for the rights to counters, and writes none. */
const LIMITS_PROBE = `${NEED}
return need('SET', KEYS[1], '0') or need('INCRBY', KEYS[1], 1) or need('PTTL', KEYS[1])
  or need('EVALSHA', '', 1, KEYS[1]) or 'OK'`

interface Events {
  answered(): void
  failing(error: Error, failure: RedisFailure): void
}

/** @param ask rejects if Redis does not do what is needed */
function openConnection(client: RedisClient, ask: () => Promise<unknown>, events: Events): () => void {
  const connection: RedisConnection = new RedisConnection(client, {
    onReady: () => {
      ask().then(events.answered, (thrown: unknown) => {
        const error = asError(thrown)
        events.failing(error, connection.refused(error))
      })
    },
    onTrouble: events.failing,
  })
  connection.start()
  return () => connection.stop()
}

/** @param open connects until the returned function is called. @throws CheckFailure */
async function requireAnswer(settings: RedisSettings, open: (events: Events) => () => void): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  let isAnswered = false
  let trouble: { readonly error: Error; readonly failure: RedisFailure } | null = null
  let grace: NodeJS.Timeout | undefined
  const deadline = setTimeout(resolve, ANSWER_MS)
  const close = open({
    answered() {
      isAnswered = true
      resolve()
    },
    failing(error, failure) {
      // The first error of a cause says more than the closed connection that follows.
      if (trouble?.failure.cause !== failure.cause) trouble = { error, failure }
      grace ??= setTimeout(resolve, GRACE_MS)
    },
  })
  try {
    await promise
  } finally {
    clearTimeout(deadline)
    clearTimeout(grace)
    close()
  }
  if (!isAnswered) throw explain(settings, trouble)
}

function explain(
  settings: RedisSettings,
  trouble: { readonly error: Error; readonly failure: RedisFailure } | null,
): CheckFailure {
  const place = describePlace(settings)
  if (trouble === null) {
    const advice = 'check that it runs, and that a majority of the Sentinels, if any, names the same primary'
    return new CheckFailure(`${place} does not answer within ${ANSWER_MS / 1000} s`, advice)
  }
  // The message alone: ioredis attaches the password of a rejected AUTH to its errors.
  return new CheckFailure(`${place}: ${describeError(trouble.error)}`, trouble.failure.advice)
}

/** Host and port alone: an address may hold a password. */
function describePlace(settings: RedisSettings): string {
  const topology = requireTopology(settings)
  const urls = topology.kind === 'standalone' ? [topology.url] : topology.urls
  const port = topology.kind === 'sentinel' ? SENTINEL_PORT : REDIS_PORT
  const places = urls
    .map(url => parseEndpoint(url, port))
    .map(({ host, port }) => hostAndPort(host, String(port)))
  switch (topology.kind) {
    case 'standalone':
      return places.join()
    case 'sentinel':
      return `primary ${topology.name} of the Sentinels ${places.join(', ')}`
    case 'cluster':
      return `cluster of ${places.join(', ')}`
  }
}
