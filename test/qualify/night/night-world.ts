import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Pool } from 'undici'
import { freePort } from '../../support/free-port.ts'
import { Parts } from '../../support/parts.ts'
import type { Listening } from '../../support/postern-process.ts'
import type { Target } from '../../support/prometheus-server.ts'
import type { RedisServer } from '../../support/redis-server.ts'
import { json, type ScriptedUpstream, startScriptedUpstream } from '../../support/scripted-upstream.ts'

/** A process as the runbooks' commands see it. */
export interface NightPod {
  readonly name: string
  readonly plane: 'gateway' | 'console'
  readonly isRunning: boolean
  /** Of this machine, by the port in the pod. */
  readonly ports: Readonly<Record<number, number>>
  readonly env: Readonly<Record<string, string>>
  /** File with its log. */
  readonly log: string
}

interface Process {
  readonly name: string
  readonly plane: 'gateway' | 'console'
  readonly env: Readonly<Record<string, string>>
  readonly opsPort: number
  running: Listening
  readonly lines: string[]
}

export interface NightOptions {
  readonly gateways?: number
  /** SQLite in a directory of its own by default. */
  readonly databaseUrl?: string
}

/** Of one client. */
const REQUEST_MS = 500
/** An operator issues a key and revokes it. */
const CHANGE_MS = 8_000
/** The chart's readiness probe. */
const PROBE_MS = 5_000
const KEYS = 10
/** A machine that starts sixty processes may miss the deadline of one. */
const START_ATTEMPTS = 4
const PATH = '/api/v1/workspaces/ws_1'

/** One release with its Redis, its upstream, clients, an operator and probes. Its namespace is the name of its fault. */
export class NightWorld {
  readonly namespace: string
  readonly redis: RedisServer
  upstream: ScriptedUpstream
  readonly directory: string
  readonly #parts: Parts
  readonly #processes: Process[] = []
  readonly #timers: NodeJS.Timeout[] = []
  readonly #keys: string[] = []
  readonly #pools: Pool[] = []

  private constructor(
    parts: Parts,
    {
      namespace,
      redis,
      upstream,
      directory,
    }: Pick<NightWorld, 'namespace' | 'redis' | 'upstream' | 'directory'>,
  ) {
    this.#parts = parts
    this.namespace = namespace
    this.redis = redis
    this.upstream = upstream
    this.directory = directory
  }

  static start(namespace: string, options: NightOptions = {}): Promise<NightWorld> {
    return Parts.start(async parts => {
      const directory = await parts.directory('night')
      const redis = await parts.redis()
      const upstream = await startScriptedUpstream(request => request.send(json('{"id":"ws_1"}')))
      const world = new NightWorld(parts, { namespace, redis, upstream, directory })
      // A fault replaces the upstream.
      await parts.own({ stop: () => world.upstream.stop() })
      await world.#startAll(options)
      await parts.own({ stop: () => world.#endClients() })
      return world
    })
  }

  async #startAll(options: NightOptions): Promise<void> {
    const internalPort = await freePort()
    await this.#begin('console', 0, {
      // As in a pod, for the runbooks' commands.
      POSTERN_ADMIN_TOKEN: this.#parts.adminToken,
      POSTERN_DATABASE_URL: options.databaseUrl ?? `sqlite:${join(this.directory, 'postern.db')}`,
      POSTERN_CONSOLE_INTERNAL_PORT: String(internalPort),
      POSTERN_CONSOLE_PORT: String(await freePort()),
    })
    for (let index = 0; index < (options.gateways ?? 1); index++) {
      await this.#begin('gateway', index, {
        POSTERN_KEY_SERVICE_URL: `http://127.0.0.1:${internalPort}`,
        POSTERN_UPSTREAM_URL: this.upstream.url,
        POSTERN_GATEWAY_PORT: String(await freePort()),
      })
    }
    for (let index = 0; index < KEYS; index++) this.#keys.push((await this.#issue()).secret)
    this.#beginClients()
  }

  get targets(): Target[] {
    return this.#processes.map(({ name, plane, opsPort }) => ({
      url: `http://127.0.0.1:${opsPort}`,
      labels: { namespace: this.namespace, job: `night-postern-${plane}`, pod: name },
    }))
  }

  process(name: string): Listening {
    return this.#named(name).running
  }

  /** Starts a process again on its ports. @param env in addition to what it had */
  async restart(name: string, env: Readonly<Record<string, string>> = {}): Promise<void> {
    const own = this.#named(name)
    await own.running.process.stop()
    own.lines.push(...own.running.process.lines)
    own.running = await this.#startPatiently(own.plane, { ...own.env, ...env })
  }

  pods(): NightPod[] {
    return this.#processes.map(({ name, plane, opsPort, env, running, lines }) => {
      const log = join(this.directory, `${name}.log`)
      writeFileSync(log, [...lines, ...running.process.lines].join('\n'))
      const { exitCode, signalCode } = running.process.child
      const isRunning = exitCode === null && signalCode === null
      const ports = { 9090: opsPort, 8080: Number(env['POSTERN_GATEWAY_PORT'] ?? 0) }
      return { name, plane, isRunning, ports, env, log }
    })
  }

  get gatewayUrl(): string {
    return this.process('gateway-0').urls.gateway
  }

  async stop(): Promise<void> {
    await this.#parts.stop()
  }

  async #begin(
    plane: 'gateway' | 'console',
    index: number,
    more: Readonly<Record<string, string>>,
  ): Promise<void> {
    const opsPort = await freePort()
    const env = {
      ...this.#parts.shared,
      POSTERN_REDIS_URL: this.redis.url,
      POSTERN_UPSTREAM_HEADERS_TIMEOUT_MS: '5000',
      ...more,
      POSTERN_OPS_PORT: String(opsPort),
    }
    const running = await this.#startPatiently(plane, env)
    this.#processes.push({ name: `${plane}-${index}`, plane, env, opsPort, running, lines: [] })
  }

  async #startPatiently(
    plane: 'gateway' | 'console',
    env: Readonly<Record<string, string>>,
    attempts = START_ATTEMPTS,
  ): Promise<Listening> {
    return await this.#parts[plane](env).catch((error: unknown) => {
      if (attempts === 1) throw error
      return this.#startPatiently(plane, env, attempts - 1)
    })
  }

  #named(name: string): Process {
    const found = this.#processes.find(process => process.name === name)
    if (found === undefined) throw new Error(`There is no process ${name}`)
    return found
  }

  #admin(path: string, body: object): Promise<Record<string, unknown>> {
    const signal = AbortSignal.timeout(CHANGE_MS)
    return this.#parts.change(this.process('console-0'), path, body, signal)
  }

  async #issue(): Promise<{ id: string; secret: string }> {
    const body = { name: 'night', scopes: ['files:read', 'workspace:read'] }
    const { key, secret } = await this.#admin('/workspaces/ws_1/keys', body)
    return { id: (key as { id: string }).id, secret: String(secret) }
  }

  /** Failures are what the night is about. */
  #every(ms: number, act: () => Promise<unknown>): void {
    let isBusy = false
    const run = async () => {
      if (isBusy) return
      isBusy = true
      await act().catch(() => {})
      isBusy = false
    }
    this.#timers.push(setInterval(() => void run(), ms))
  }

  #beginClients(): void {
    let count = 0
    for (const { plane, opsPort, env } of this.#processes) {
      this.#every(PROBE_MS, () =>
        fetch(`http://127.0.0.1:${opsPort}/readyz`, { signal: AbortSignal.timeout(2000) }).then(each =>
          each.text(),
        ),
      )
      if (plane !== 'gateway') continue
      const pool = new Pool(`http://127.0.0.1:${env['POSTERN_GATEWAY_PORT']}`, { connections: 4 })
      this.#pools.push(pool)
      this.#every(REQUEST_MS, async () => {
        const headers = { authorization: `Bearer ${this.#keys[count++ % this.#keys.length]}` }
        const sent = { path: PATH, method: 'GET', headers, signal: AbortSignal.timeout(8000) } as const
        await (await pool.request(sent)).body.dump()
      })
    }
    this.#every(CHANGE_MS, async () => {
      const { id, secret } = await this.#issue()
      this.#keys[count % this.#keys.length] = secret
      this.upstream.requests.length = 0
      if (count % 3 === 0) await this.#admin(`/keys/${id}/revoke`, {})
    })
  }

  async #endClients(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer)
    await Promise.all(this.#pools.map(pool => pool.destroy()))
  }
}
