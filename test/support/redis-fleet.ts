import { onTestFinished } from 'vitest'
import { neverReloads } from '../../src/config/reloadable.ts'
import { systemClock } from '../../src/domain/clock.ts'
import type { Lookup } from '../../src/domain/key/key-record.ts'
import { digestKey } from '../../src/domain/key/secret.ts'
import { createKeyStore, type RunningKeyStore } from '../../src/keys/create-key-store.ts'
import { createMetrics, type Metrics } from '../../src/observability/metrics/metrics.ts'
import { KEY_SERVICE_TOKEN, type RunningConsole, startConsole } from './console.ts'
import { type ConfigChanges, keyStoreConfig } from './key-store-config.ts'
import { LogSpy } from './log-spy.ts'
import { metricValue } from './metric-value.ts'
import type { RedisGroup } from './redis-group.ts'
import { CONSOLE_USER, GATEWAY_USER } from './redis-users.ts'
import { until } from './until.ts'

export interface FleetOptions {
  readonly gateways?: number
  readonly gatewaySettings?: ConfigChanges
  /** Without it, the gateways have Redis alone. */
  readonly keyService?: boolean
}

/** The key store of one gateway. */
export class Replica {
  readonly log = new LogSpy()
  readonly metrics: Metrics = createMetrics()
  readonly running: RunningKeyStore

  constructor(changes: ConfigChanges) {
    const { metrics, log } = this
    const config = keyStoreConfig(changes)
    const keyService =
      config.keyService.url === undefined
        ? config.keyService
        : { ...config.keyService, token: [KEY_SERVICE_TOKEN] }
    this.running = createKeyStore({
      config: { ...config, keyService },
      metrics,
      logger: log,
      clock: systemClock,
      onReload: neverReloads,
    })
    this.running.start()
  }

  get isConnected(): boolean {
    return this.running.health().changes === 'connected'
  }

  async get(digest: string): Promise<Lookup> {
    return await this.running.keyStore.get(digest)
  }

  /** The verdict that a client would get. */
  async verdict(digest: string): Promise<'good' | 'revoked' | Exclude<Lookup['kind'], 'found'>> {
    const lookup = await this.get(digest)
    if (lookup.kind !== 'found') return lookup.kind
    return lookup.grant.revokedAtMs === null ? 'good' : 'revoked'
  }

  async answersOf(tier: 'redis' | 'key_service'): Promise<number> {
    return await metricValue(this.metrics.lookups, { tier, result: 'hit' })
  }

  async reconnects(): Promise<number> {
    return await metricValue(this.metrics.redisReconnects)
  }
}

/** A real console and several gateways over one Redis, each with exactly the rights in docs/redis.md. */
export class Fleet {
  readonly console: RunningConsole
  readonly replicas: readonly Replica[]

  private constructor(console: RunningConsole, replicas: readonly Replica[]) {
    this.console = console
    this.replicas = replicas
  }

  /** Stops when the running test ends. */
  static async start(group: RedisGroup, options: FleetOptions = {}): Promise<Fleet> {
    const { place } = group
    const console = await startConsole({ redis: { ...place, ...CONSOLE_USER } })
    const keyServiceUrl = await console.internal.listen({ host: '127.0.0.1', port: 0 })
    const keyService = options.keyService === false ? {} : { keyServiceUrl }
    const changes = { place, ...GATEWAY_USER, ...keyService, ...options.gatewaySettings }
    const replicas = Array.from({ length: options.gateways ?? 3 }, () => new Replica(changes))
    onTestFinished(async () => {
      await Promise.all(replicas.map(replica => replica.running.stop()))
    })
    const fleet = new Fleet(console, replicas)
    await fleet.untilConnected()
    return fleet
  }

  async untilConnected(timeoutMs = 30_000): Promise<void> {
    await until('the console is connected', () => this.isConnected(), timeoutMs)
    await until(
      'every gateway is connected',
      () => this.replicas.every(replica => replica.isConnected),
      timeoutMs,
    )
    const up = () => this.replicas.every(({ running }) => running.health().redis === 'ok')
    await until('every gateway reads Redis', up, timeoutMs)
  }

  async isConnected(): Promise<boolean> {
    return (await this.console.health()).announcer === 'ready'
  }

  async issue(): Promise<{ id: string; digest: string }> {
    const request = { name: 'test key', scopes: ['workspace:read'] }
    const { status, body } = await this.console.send('POST', '/admin/v1/workspaces/ws_1/keys', request)
    if (status !== 201) throw new Error(`Issuing a key returned ${status}`)
    return { id: body.key.id, digest: digestKey(body.secret) }
  }

  /** @returns whether the gateways were notified, and when the console responded: the guarantee counts from then on */
  async revoke(id: string): Promise<{ announced: boolean; atMs: number }> {
    const { status, body } = await this.console.send('POST', `/admin/v1/keys/${id}/revoke`)
    if (status !== 200) throw new Error(`Revoking a key returned ${status}`)
    return { announced: body.announced, atMs: performance.now() }
  }

  /** Waits until every gateway returns the verdict. */
  async untilVerdict(digest: string, verdict: string, timeoutMs?: number): Promise<void> {
    for (const replica of this.replicas) {
      await until(`the key is ${verdict}`, async () => (await replica.verdict(digest)) === verdict, timeoutMs)
    }
  }
}
