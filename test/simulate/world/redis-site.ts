import type { Redis } from 'ioredis'
import type { RedisNetwork } from '../../../src/redis/clients.ts'
import type { Endpoint } from '../../../src/redis/endpoint.ts'
import type { Network } from './network.ts'
import type { Process } from './process.ts'
import type { Random } from './random.ts'
import { SimulatedRedis } from './redis-client.ts'
import { type RedisLink, RedisServer } from './redis-server.ts'
import type { Scheduler } from './scheduler.ts'

export const SENTINELS = 'sentinels'
/** Sentinels wait this long before they replace a primary, at least and at most. */
const FAILOVER_MS = [500, 3_000] as const
/** Until a replaced primary that is back becomes a replica. */
const DEMOTION_MS = [50, 1_000] as const

interface Parts {
  readonly scheduler: Scheduler
  readonly network: Network
  readonly random: Random
}

/** One Redis, or a primary and a replica that Sentinels watch. */
export class RedisSite {
  readonly parts: Parts
  readonly servers: readonly RedisServer[]
  /** Called with each message that a subscriber reads. */
  onMessage: (process: Process, text: string) => void = () => {}
  /** The one that most Sentinels name. */
  #primary: RedisServer
  #isFailingOver = false

  constructor(parts: Parts, isWatched: boolean) {
    this.parts = parts
    const names = isWatched ? ['redis-0', 'redis-1'] : ['redis-0']
    this.servers = names.map(
      (name, index) => new RedisServer(name, { host: `10.0.0.${index + 1}`, port: 6379 }, parts),
    )
    const [first, second] = this.servers
    if (first === undefined) throw new Error('No server')
    this.#primary = first
    second?.follow(first)
  }

  get nowMs(): number {
    return this.parts.scheduler.nowMs
  }

  get primary(): RedisServer {
    return this.#primary
  }

  serverAt(endpoint: Endpoint): RedisServer {
    const found = this.servers.find(server => server.endpoint.host === endpoint.host)
    if (found === undefined) throw new Error(`No server at ${endpoint.host}`)
    return found
  }

  /** How a process finds and reaches Redis. */
  networkOf(process: Process): RedisNetwork {
    const { random } = this.parts
    return {
      findServer: () => () => this.#ask(process),
      // The options of the client are those of `safeOptions`, which the simulated one has built in.
      createServerClient: (_settings, find) =>
        new SimulatedRedis({ process, site: this, random, find }) as unknown as Redis,
    }
  }

  /** Resolves when the connection is open, as TCP does, also while the server is stalled. */
  dial(process: Process, server: RedisServer, timeoutMs: number): Promise<void> {
    const { network } = this.parts
    return new Promise((resolve, reject) => {
      if (network.isBlocked(process.name, server.name)) {
        process.timers.after(timeoutMs, () => reject(new Error('connect ETIMEDOUT')))
        return
      }
      const atMs = this.nowMs + 2 * network.delayMs(process.name, server.name)
      process.at(atMs, () => (server.isUp ? resolve() : reject(new Error('connect ECONNREFUSED'))))
    })
  }

  closeAtServer(link: RedisLink): void {
    for (const server of this.servers) server.dropLinks(false, other => other === link)
  }

  /** The primary dies, freezes, or is cut off from everything but clients. Sentinels promote the replica. */
  failOver(kind: 'dies' | 'freezes' | 'is_cut_off', durationMs: number): void {
    const { scheduler, random } = this.parts
    const old = this.#primary
    const replica = this.servers.find(server => server !== old)
    if (replica === undefined || this.#isFailingOver || !old.isUp || !replica.isUp) return
    this.#isFailingOver = true
    if (kind === 'dies') old.crash(random.chance(0.7))
    if (kind === 'freezes') old.stall(durationMs)
    old.stopReplicating()
    scheduler.at(this.nowMs + Math.min(durationMs, random.between(...FAILOVER_MS)), () => {
      this.#primary = replica
      replica.promote()
      // Some find the new primary at once; those that keep their connections stay with the old one.
      if (kind === 'is_cut_off') old.dropLinks(true, () => random.chance(0.5))
    })
    scheduler.at(this.nowMs + durationMs + random.between(...DEMOTION_MS), () => {
      if (kind === 'dies') old.restart(this.nowMs)
      old.follow(replica)
      this.#isFailingOver = false
    })
  }

  /** A Redis without Sentinels restarts, and may come back with old data or none. */
  restart(downMs: number, keptUntilMs: number): void {
    const { scheduler, random } = this.parts
    const server = this.#primary
    if (!server.isUp || this.servers.length > 1) return
    server.crash(random.chance(0.8))
    scheduler.at(this.nowMs + downMs, () => server.restart(keptUntilMs))
  }

  async #ask(process: Process): Promise<Endpoint> {
    if (this.servers.length === 1) return this.#primary.endpoint
    const { network } = this.parts
    await new Promise<void>((resolve, reject) => {
      if (network.isBlocked(process.name, SENTINELS)) {
        process.timers.after(1_000, () => reject(new Error('No Sentinel names the primary')))
      } else process.at(this.nowMs + 2 * network.delayMs(process.name, SENTINELS), resolve)
    })
    return this.#primary.endpoint
  }
}
