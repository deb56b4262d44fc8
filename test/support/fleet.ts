import { dirname } from 'node:path'
import { Pool } from 'undici'
import type { AdminResponse, GatewaysResponse } from './admin-response.ts'
import { Parts } from './parts.ts'
import type { Listening } from './postern-process.ts'
import { readiness } from './readiness.ts'
import type { RecordingUpstream } from './recording-upstream.ts'
import type { RedisServer } from './redis-server.ts'
import type { TcpProxy } from './tcp-proxy.ts'
import { until } from './until.ts'
import { ALL_SCOPES, type IssuedKey } from './world.ts'

/** A gateway, and the proxies on its connections to Redis and the key service. */
export interface Replica extends Listening {
  readonly toRedis: TcpProxy
  readonly toKeyService: TcpProxy
}

export interface Revoked {
  readonly askedAtMs: number
  /** From the record: shortly before the commit. */
  readonly committedAtMs: number
  readonly announced: boolean
}

/** `narrow`: only a network where no client is may use the key. */
export type Ending = 'revoke' | 'suspend' | 'shorten' | 'narrow'

/** The codes with which keys are refused afterwards. */
export const REFUSED_AS: Readonly<Record<Ending, string>> = {
  revoke: 'key_revoked',
  suspend: 'key_suspended',
  shorten: 'key_expired',
  narrow: 'address_not_allowed',
}

export interface Ended extends Revoked {
  readonly gateways: GatewaysResponse
}

/** Of a key whose expiry is shortened. */
const EXPIRES_IN_MS = 500
const LONGEST_EXPIRES_IN_MS = 5_000
const RECOVERY_MS = 20_000

/** Redis, console and gateways as processes, with a proxy on each connection between them. */
export class Fleet {
  readonly redis: RedisServer
  readonly console: Listening
  readonly consoleToRedis: TcpProxy
  readonly replicas: readonly Replica[]
  readonly upstream: RecordingUpstream
  /** Where the console keeps its database. */
  readonly directory: string
  readonly #parts: Parts
  readonly #admin: Pool

  private constructor(
    parts: Parts,
    fleet: Pick<Fleet, 'redis' | 'console' | 'consoleToRedis' | 'replicas' | 'upstream' | 'directory'>,
  ) {
    this.redis = fleet.redis
    this.console = fleet.console
    this.consoleToRedis = fleet.consoleToRedis
    this.replicas = fleet.replicas
    this.upstream = fleet.upstream
    this.directory = fleet.directory
    this.#parts = parts
    this.#admin = new Pool(fleet.console.urls.console, { connections: 16 })
  }

  /** @param settings for the gateways */
  static async start(count: number, settings: Readonly<Record<string, string>> = {}): Promise<Fleet> {
    return await Parts.start(async parts => {
      const redis = await parts.redis()
      const upstream = await parts.upstream()
      const consoleToRedis = await parts.proxy(redis.url)
      const databaseUrl = await parts.sqlite()
      const directory = dirname(databaseUrl.replace('sqlite:', ''))
      const quiet = { POSTERN_LOG_LEVEL: 'warn' }
      const console = await parts.console({
        ...quiet,
        POSTERN_REDIS_URL: urlOf(consoleToRedis, 'redis'),
        POSTERN_DATABASE_URL: databaseUrl,
      })
      const replicas = await Parts.several(count, async () => {
        const toRedis = await parts.proxy(redis.url)
        const toKeyService = await parts.proxy(console.urls.internal)
        const gateway = await parts.gateway({
          ...quiet,
          POSTERN_REDIS_URL: urlOf(toRedis, 'redis'),
          POSTERN_KEY_SERVICE_URL: urlOf(toKeyService, 'http'),
          POSTERN_UPSTREAM_URL: upstream.url,
          ...settings,
        })
        return { ...gateway, toRedis, toKeyService }
      })
      const fleet = new Fleet(parts, { redis, console, consoleToRedis, replicas, upstream, directory })
      await fleet.untilHealthy()
      return fleet
    })
  }

  /** Every process that a change or a lookup passes. */
  get pids(): number[] {
    const listening = [this.console, ...this.replicas].map(({ process: { child } }) => child.pid ?? 0)
    return [process.pid, this.redis.pid, ...listening]
  }

  /** Waits until every replica is connected to Redis and the console announces changes. */
  async untilHealthy(): Promise<void> {
    for (const replica of this.replicas) {
      await until(
        'the gateway is connected',
        async () => {
          const { changes, redis } = await readiness(replica)
          return changes === 'connected' && redis === 'ok'
        },
        RECOVERY_MS,
      )
    }
    await until('the console announces', async () => {
      return (await readiness(this.console))['announcer'] === 'ready'
    })
  }

  async issue(count: number, workspaceId = 'ws_1', scopes = ALL_SCOPES): Promise<IssuedKey[]> {
    return Promise.all(
      Array.from({ length: count }, async () => {
        const body = { name: 'fleet test key', scopes }
        const { key, secret } = await this.#post(`/workspaces/${workspaceId}/keys`, 201, body)
        return { id: String((key as { id: string }).id), secret: String(secret) }
      }),
    )
  }

  /** A response of the admin API, as text. */
  async read(path: string): Promise<string> {
    return JSON.stringify(await this.#send('GET', path, 200))
  }

  async revoke({ id }: IssuedKey): Promise<Revoked> {
    const askedAtMs = Date.now()
    const { key, announced } = await this.#post(`/keys/${id}/revoke`, 200)
    const { revokedAt } = key as { revokedAt: string }
    return { askedAtMs, committedAtMs: Date.parse(revokedAt), announced: announced === true }
  }

  /** Ends the use of a key in one of the ways that the guarantee covers. */
  async end({ id }: IssuedKey, ending: Ending, mustWait = false): Promise<Ended> {
    const askedAtMs = Date.now()
    const wait = mustWait ? '?wait=1' : ''
    const path = `/keys/${id}`
    const response =
      ending === 'shorten'
        ? await this.#shorten(path + wait)
        : ending === 'narrow'
          ? await this.#edit(path + wait, { allowedCidrs: ['192.0.2.0/24'] })
          : await this.#post(`${path}/${ending}${wait}`, 200)
    const { committedAt, announced, gateways, key } = response as unknown as AdminResponse
    // A shortened key is good until its expiry, however early the change is known.
    const dueAtMs = ending === 'shorten' ? Date.parse(key.expiresAt) : 0
    const committedAtMs = Math.max(Date.parse(committedAt), dueAtMs)
    return { askedAtMs, committedAtMs, announced, gateways }
  }

  /** An expiry that has passed when a busy console reads it is refused: then a later one. */
  async #shorten(path: string): Promise<Record<string, unknown>> {
    for (let ms = EXPIRES_IN_MS; ; ms *= 2) {
      try {
        return await this.#edit(path, { expiresAt: new Date(Date.now() + ms).toISOString() })
      } catch (error) {
        if (ms > LONGEST_EXPIRES_IN_MS) throw error
      }
    }
  }

  async resumeAndWait({ id }: IssuedKey): Promise<GatewaysResponse> {
    // As below.
    return (await this.#post(`/keys/${id}/resume?wait=1`, 200))['gateways'] as GatewaysResponse
  }

  /** Revokes a key; the console responds when every gateway has confirmed, or after a second. */
  async revokeAndWait({ id }: IssuedKey): Promise<GatewaysResponse> {
    // The console's response is trusted here; test/console tests it.
    return (await this.#post(`/keys/${id}/revoke?wait=1`, 200))['gateways'] as GatewaysResponse
  }

  /** Rotates a key with a grace period. @returns the end of the old key, in ms since the epoch */
  async endSoon({ id }: IssuedKey, seconds: number): Promise<number> {
    const { replaced } = await this.#post(`/keys/${id}/rotate`, 201, { overlapSeconds: seconds })
    return Date.parse((replaced as { expiresAt: string }).expiresAt)
  }

  async stop(): Promise<void> {
    await this.#admin.destroy()
    await this.#parts.stop()
  }

  #post(path: string, expected: number, body?: unknown): Promise<Record<string, unknown>> {
    return this.#send('POST', path, expected, body)
  }

  /** A key that was only issued. */
  #edit(path: string, body: unknown): Promise<Record<string, unknown>> {
    return this.#send('PATCH', path, 200, body, { 'if-match': '"1"' })
  }

  async #send(
    method: 'GET' | 'POST' | 'PATCH',
    path: string,
    expected: number,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Record<string, unknown>> {
    const json = body === undefined ? {} : { 'content-type': 'application/json' }
    const answer = await this.#admin.request({
      method,
      path: `/admin/v1${path}`,
      headers: { authorization: `Bearer ${this.#parts.adminToken}`, ...json, ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await answer.body.text()
    if (answer.statusCode !== expected) throw new Error(`The console answered ${answer.statusCode}: ${text}`)
    return JSON.parse(text) as Record<string, unknown>
  }
}

function urlOf(proxy: TcpProxy, scheme: 'redis' | 'http'): string {
  return `${scheme}://127.0.0.1:${proxy.port}`
}
