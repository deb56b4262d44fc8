import type { ConnectionOptions } from 'node:tls'
import type { RedisOptions as IoredisOptions } from 'ioredis'
import type { RegionSettings } from '../config/schema/schema.ts'
import { readAuthorities } from '../config/setting-files.ts'
import { percentDecoded } from '../domain/form/text.ts'
import { findRedisTopology, isEncryptedRedis, type RedisTopology } from '../domain/redis-address.ts'

export type RedisSettings = RegionSettings['redis']

/** Without the mapping of RESP3 replies: the connections use RESP2. */
type RedisOptions = Omit<IoredisOptions, 'replyMapping'>

const RETRY_MIN_MS = 50
const RETRY_MAX_MS = 1_000
const TCP_KEEP_ALIVE_MS = 5_000
/** A connection without a reply to a command for this long is reopened: the address may resolve differently now. */
const SILENCE_MS = 1_000

/** Credentials, database and encryption of a connection. */
export interface Access {
  readonly username?: string
  readonly password?: string
  readonly db?: number
  readonly tls: ConnectionOptions | null
}

/**
 * Options with which a connection never waits long, never repeats a command, and needs no ACL rights beyond its own
 * commands. The address is not among them.
 */
export function safeOptions(settings: RedisSettings, access: Access): RedisOptions {
  const { username, password, db, tls } = access
  return {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(tls === null ? {} : { tls }),
    db: db ?? 0,
    lazyConnect: true,
    protocol: 2,
    connectTimeout: settings.connectTimeoutMs,
    commandTimeout: settings.commandTimeoutMs,
    socketTimeout: Math.max(SILENCE_MS, settings.commandTimeoutMs),
    // A frozen server never answers our FIN: by default ioredis would wait two seconds for it.
    disconnectTimeout: settings.commandTimeoutMs,
    keepAlive: TCP_KEEP_ALIVE_MS,
    retryStrategy: reconnectDelayMs,
    // A command fails with its connection; the next connection does not repeat it.
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    // The invalidation listener subscribes again itself, because it must know that it may have missed messages.
    autoResubscribe: false,
    // The ACLs we document allow neither INFO nor CLIENT SETINFO.
    enableReadyCheck: false,
    disableClientInfo: true,
  }
}

/** Exponential with jitter, so that gateways do not reconnect at the same moment; without end. */
export function reconnectDelayMs(
  attempt: number,
  random: () => number = Math.random,
  maxMs: number = RETRY_MAX_MS,
): number {
  const ceilingMs = Math.min(maxMs, RETRY_MIN_MS * 2 ** Math.min(attempt, 10))
  return Math.round(RETRY_MIN_MS + random() * (ceilingMs - RETRY_MIN_MS))
}

/** The kind of Redis. Throws if none is configured. */
export function requireTopology(settings: RedisSettings): RedisTopology {
  const topology = findRedisTopology(settings)
  if (topology === null) throw new Error('No Redis is configured')
  return topology
}

/**
 * Access to the servers that hold the keys. The address is parsed here because ioredis would let its query string
 * override any option.
 */
export function serverAccess(settings: RedisSettings): Access {
  const topology = requireTopology(settings)
  const address = topology.kind === 'standalone' ? new URL(topology.url) : null
  // An invalid percent escape stays as it is.
  const decode = (text = '') => percentDecoded(text) ?? text
  const username = settings.username ?? decode(address?.username)
  const password = settings.password ?? decode(address?.password)
  return {
    ...(username === '' ? {} : { username }),
    // A user without a password needs an AUTH too.
    ...(password === '' && username === '' ? {} : { password }),
    db: Number(address?.pathname.slice(1) ?? 0) || 0,
    tls: readTls(topology, settings),
  }
}

/** Access to the Sentinels, which have users of their own. */
export function sentinelAccess(settings: RedisSettings): Access {
  const { username, password } = settings.sentinel
  return {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    tls: readTls(requireTopology(settings), settings),
  }
}

function readTls(topology: RedisTopology, { caFile }: RedisSettings): ConnectionOptions | null {
  const urls = topology.kind === 'standalone' ? [topology.url] : topology.urls
  if (!urls.some(isEncryptedRedis)) return null
  return readAuthorities(caFile, 'redis.caFile')
}

/** For commands that people run: a slow answer is an answer, while `redis.commandTimeoutMs` suits requests that wait. */
export function patientSettings(settings: RedisSettings): RedisSettings {
  const atLeast = (ms: number) => Math.max(ms, 2_000)
  return {
    ...settings,
    commandTimeoutMs: atLeast(settings.commandTimeoutMs),
    connectTimeoutMs: atLeast(settings.connectTimeoutMs),
  }
}
