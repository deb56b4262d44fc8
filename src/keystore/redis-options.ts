import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import type { RedisOptions as IoredisOptions } from 'ioredis'
import type { Config } from '../config/schema.ts'

/** Settings of a Redis that is configured at all. */
export type RedisSettings = Config['redis'] & { readonly url: string }

/** Without the mapping of RESP3 replies: the gateway speaks RESP2. */
export type RedisOptions = Omit<IoredisOptions, 'replyMapping'>

const RETRY_MIN_MS = 50
const RETRY_MAX_MS = 1_000
const TCP_KEEP_ALIVE_MS = 5_000

/**
 * Options under which a connection never waits long, never repeats a read, and needs no command but those it is for.
 * The address is taken apart here and not by ioredis, which would let its query string override any option.
 */
export function redisOptions(settings: RedisSettings): RedisOptions {
  return {
    ...addressOf(settings),
    lazyConnect: true,
    protocol: 2,
    connectTimeout: settings.connectTimeoutMs,
    commandTimeout: settings.commandTimeoutMs,
    // A frozen server never answers our FIN: without this it would be held for two seconds more.
    disconnectTimeout: settings.commandTimeoutMs,
    keepAlive: TCP_KEEP_ALIVE_MS,
    retryStrategy: retryDelayMs,
    // A read that outlives its connection is a failure, not something to ask the next connection.
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    // Subscribing again is ours: it begins a new epoch.
    autoResubscribe: false,
    // INFO and CLIENT SETINFO are not in the gateway's ACL.
    enableReadyCheck: false,
    disableClientInfo: true,
  }
}

/** Spread, so that a fleet does not return as one; bounded, and never giving up. */
export function retryDelayMs(attempt: number, random: () => number = Math.random): number {
  const ceilingMs = Math.min(RETRY_MAX_MS, RETRY_MIN_MS * 2 ** Math.min(attempt, 10))
  return Math.round(RETRY_MIN_MS + random() * (ceilingMs - RETRY_MIN_MS))
}

function addressOf(settings: RedisSettings): RedisOptions {
  const url = new URL(settings.url)
  const host = url.hostname.replace(/^\[|\]$/g, '') || '127.0.0.1'
  const username = settings.username ?? decodeURIComponent(url.username)
  const password = settings.password ?? decodeURIComponent(url.password)
  return {
    host,
    port: url.port === '' ? 6379 : Number(url.port),
    db: Number(url.pathname.slice(1)) || 0,
    ...(username === '' ? {} : { username }),
    ...(password === '' ? {} : { password }),
    ...(url.protocol === 'rediss:' ? { tls: tlsOf(host, settings) } : {}),
  }
}

function tlsOf(host: string, settings: RedisSettings): NonNullable<RedisOptions['tls']> {
  return {
    ...(isIP(host) === 0 ? { servername: host } : {}),
    ...(settings.caFile === undefined ? {} : { ca: readFileSync(settings.caFile) }),
  }
}
