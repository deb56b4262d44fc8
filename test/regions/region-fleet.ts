import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type Listening, startPostern } from '../support/postern-process.ts'
import { RecordingUpstream } from '../support/recording-upstream.ts'
import { RedisServer } from '../support/redis-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { until } from '../support/until.ts'

/** One chunk in a hundred stalls its connection for so long. */
const STALL_MS = 200
const STALLS = 0.01
const RECOVERY_MS = 60_000

/** A region of one gateway beside its Redis, far from the console. */
export interface FarRegion {
  readonly name: string
  /** One way. */
  readonly delayMs: number
  readonly redis: RedisServer
  readonly gateway: Listening
  readonly consoleToRedis: TcpProxy
  readonly toKeyService: TcpProxy
}

export interface FleetKey {
  readonly id: string
  readonly secret: string
}

/** A console with regions, all as processes; what crosses the distance goes through a proxy that delays and stalls. */
export class RegionFleet {
  readonly regions: readonly FarRegion[]
  #console: Listening
  readonly #environment: Readonly<Record<string, string>>
  readonly #adminToken: string

  private constructor(
    console: Listening,
    environment: Readonly<Record<string, string>>,
    adminToken: string,
    regions: readonly FarRegion[],
  ) {
    this.#console = console
    this.#environment = environment
    this.#adminToken = adminToken
    this.regions = regions
    onTestFinished(async () => void (await this.#console.process.stop('SIGKILL')))
  }

  static async start(delays: Readonly<Record<string, number>>): Promise<RegionFleet> {
    const upstream = await RecordingUpstream.start()
    onTestFinished(() => upstream.stop())
    const adminToken = randomBytes(24).toString('base64url')
    const shared = {
      POSTERN_KEY_SERVICE_TOKEN: randomBytes(24).toString('base64url'),
      POSTERN_KEYS_SIGNING_SECRETS: randomBytes(32).toString('base64'),
      POSTERN_DRAIN_DELAY_MS: '0',
      POSTERN_LOG_LEVEL: 'warn',
    }
    const far = await Promise.all(
      Object.entries(delays).map(async ([name, delayMs]) => {
        const redis = await RedisServer.start()
        onTestFinished(() => redis.stop())
        return { name, delayMs, redis, consoleToRedis: await distant(redis.url, delayMs) }
      }),
    )
    const regions = far.map(({ name, consoleToRedis }) => ({
      name,
      redis: { url: `redis://127.0.0.1:${consoleToRedis.port}` },
    }))
    const environment = {
      ...shared,
      POSTERN_REGIONS: JSON.stringify(regions),
      POSTERN_ADMIN_TOKEN: adminToken,
      POSTERN_DATABASE_URL: `sqlite:${join(temporaryDirectory(), 'postern.db')}`,
    }
    const console = await startPostern('console', environment)
    const running = await Promise.all(
      far.map(async region => {
        const toKeyService = await distant(console.urls.internal, region.delayMs)
        const gateway = await startPostern('gateway', {
          ...shared,
          POSTERN_REGION: region.name,
          POSTERN_REDIS_URL: region.redis.url,
          POSTERN_KEY_SERVICE_URL: `http://127.0.0.1:${toKeyService.port}`,
          POSTERN_KEY_SERVICE_TIMEOUT_MS: '3000',
          POSTERN_UPSTREAM_URL: upstream.url,
        })
        onTestFinished(async () => void (await gateway.process.stop('SIGKILL')))
        return { ...region, toKeyService, gateway }
      }),
    )
    const fleet = new RegionFleet(console, environment, adminToken, running)
    await fleet.untilHealthy()
    return fleet
  }

  async untilHealthy(): Promise<void> {
    for (const { name, gateway } of this.regions) {
      const isConnected = async () => (await readiness(gateway))['changes'] === 'connected'
      await until(`the gateway of ${name} is connected`, isConnected, RECOVERY_MS)
    }
    const isReady = async () => (await readiness(this.#console))['announcer'] === 'ready'
    await until('the console announces to all', isReady, RECOVERY_MS)
  }

  /** Kills the console and starts it again, at the same address for gateways. */
  async restartConsole(whileDown: () => Promise<void>): Promise<void> {
    await this.#console.process.stop('SIGKILL')
    await whileDown()
    const port = new URL(this.#console.urls.internal).port
    this.#console = await startPostern('console', {
      ...this.#environment,
      POSTERN_CONSOLE_INTERNAL_PORT: port,
    })
  }

  async issue(count: number): Promise<FleetKey[]> {
    const body = { name: 'k', scopes: ['workspace:read'] }
    const issued = Array.from({ length: count }, () => this.#post('/workspaces/ws_1/keys', body))
    return (await Promise.all(issued)).map(({ key, secret }) => ({ id: key.id, secret: String(secret) }))
  }

  /** @returns when it was committed, and the answer */
  async revoke({ id }: FleetKey): Promise<Revocation> {
    return this.#post(`/keys/${id}/revoke`)
  }

  async #post(path: string, body?: object): Promise<Revocation> {
    const response = await fetch(`${this.#console.urls.console}/admin/v1${path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${this.#adminToken}`,
        ...(body && { 'content-type': 'application/json' }),
      },
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`The console answered ${response.status}: ${text}`)
    // The tests of the admin API check its form.
    return JSON.parse(text) as Revocation
  }
}

interface Revocation {
  readonly key: { readonly id: string }
  readonly secret?: string
  readonly announced: boolean
  readonly committedAt: string
  readonly regions: readonly { readonly name: string; readonly announced: boolean }[]
}

/** A proxy that delays each chunk, and sometimes stalls. */
async function distant(url: string, delayMs: number): Promise<TcpProxy> {
  const proxy = await TcpProxy.start(url)
  onTestFinished(() => proxy.stop())
  Object.assign(proxy.delayMs, { forth: delayMs, back: delayMs })
  let chunks = 0
  proxy.onPiece = direction => {
    chunks++
    if (chunks % (1 / STALLS) !== 0) return
    const delay = proxy.delayMs[direction]
    proxy.delayMs[direction] = delayMs + STALL_MS
    // The chunk that is read now waits; those after it wait behind it.
    setImmediate(() => {
      proxy.delayMs[direction] = delay
    })
  }
  return proxy
}

async function readiness({ urls }: Listening): Promise<Record<string, unknown>> {
  return (await (await fetch(`${urls.ops}/readyz`)).json()) as Record<string, unknown>
}
