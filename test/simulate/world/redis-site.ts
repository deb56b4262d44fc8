import type { Endpoint, FindServer } from '../../../src/redis/endpoint.ts'
import type { PrimaryQuery } from '../../../src/redis/sentinels.ts'
import type { Network } from './network.ts'
import type { Process } from './process.ts'
import type { Random } from './random.ts'
import { type Published, type RedisLink, RedisServer } from './redis-server.ts'
import type { Scheduler } from './scheduler.ts'
import { hostOf } from './settings.ts'

/** Sentinels that do not answer are given up after this. */
const SENTINEL_TIMEOUT_MS = 1_000
/** Round trips: of a query that opens a connection first, and of one over a connection that is open. */
const TRIPS = { first: 2, again: 1 } as const
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
  readonly region: number
  readonly servers: readonly RedisServer[]
  /** The place of its Sentinels. */
  readonly sentinels: string
  /** Called with each message that a subscriber reads. */
  onMessage: (process: Process, text: string) => void = () => {}
  /** Called with each record that a client reads. */
  onRecord: (process: Process, key: string) => void = () => {}
  /** The one that most Sentinels name. */
  #primary: RedisServer
  #isFailingOver = false
  /** The primary that was replaced and still serves clients. */
  #cutOff: RedisServer | null = null

  constructor(parts: Parts, region: number, isWatched: boolean) {
    this.parts = parts
    this.region = region
    this.sentinels = `sentinels-${region}`
    this.servers = Array.from({ length: isWatched ? 2 : 1 }, (_, index) => {
      const endpoint = { host: hostOf(region, index), port: 6379 }
      return new RedisServer(`redis-${region}-${index}`, endpoint, parts)
    })
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

  /** What consoles published last. */
  get published(): readonly Published[] {
    return this.servers.flatMap(server => server.published).sort((a, b) => a.atMs - b.atMs)
  }

  /** As an attacker who may publish in Redis. */
  publish(text: string): void {
    if (this.#primary.isUp) this.#primary.publish(text)
  }

  /** Records that were least used, when memory is full. */
  evict(keys: readonly string[]): void {
    for (const key of keys) this.#primary.set(key, '')
  }

  serverAt(endpoint: Endpoint): RedisServer {
    const found = this.servers.find(server => server.endpoint.host === endpoint.host)
    if (found === undefined) throw new Error(`No server at ${endpoint.host}`)
    return found
  }

  /** As at a process: asks the Sentinels, if there are any. */
  finderOf(process: Process): FindServer {
    return () => this.#ask(process, false)
  }

  primaryQueryOf(process: Process): PrimaryQuery | null {
    if (this.servers.length === 1) return null
    return { ask: () => this.#ask(process, true), renew: () => {}, stop: () => {} }
  }

  /** Resolves when the connection is open, as TCP does, also while the server is stalled. */
  dial(process: Process, server: RedisServer, timeoutMs: number): Promise<void> {
    const { network } = this.parts
    return new Promise((resolve, reject) => {
      const way = network.way(process.name, server.name)
      if (way.isBlocked) {
        process.timers.after(timeoutMs, () => reject(new Error('connect ETIMEDOUT')))
        return
      }
      const atMs = this.nowMs + 2 * way.delayMs()
      process.at(atMs, () => (server.isUp ? resolve() : reject(new Error('connect ECONNREFUSED'))))
    })
  }

  closeAtServer(link: RedisLink): void {
    link.isReadToTheEnd = this.parts.random.chance(0.5)
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
      if (kind !== 'is_cut_off') return
      this.#cutOff = old
      old.dropLinks(true, () => random.chance(0.5))
    })
    scheduler.at(this.nowMs + durationMs + random.between(...DEMOTION_MS), () => {
      if (kind === 'dies') old.restart(this.nowMs)
      old.follow(replica)
      this.#cutOff = null
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

  async #ask(process: Process, needsMajority: boolean): Promise<Endpoint> {
    if (this.servers.length === 1) return this.#primary.endpoint
    const { network, random } = this.parts
    const way = network.way(process.name, this.sentinels)
    const trips = needsMajority ? TRIPS.again : TRIPS.first
    // A connection that is known to be closed fails at once.
    const timeoutMs = needsMajority && random.chance(0.5) ? 1 : SENTINEL_TIMEOUT_MS
    const isAnswered = await new Promise<boolean>(resolve => {
      if (way.isBlocked) process.timers.after(timeoutMs, () => resolve(false))
      else process.at(this.nowMs + trips * 2 * way.delayMs(), () => resolve(true))
    })
    if (isAnswered) return this.#primary.endpoint
    // One Sentinel is in the same part of the network, and does not know the new primary yet.
    if (this.#cutOff !== null && !needsMajority) return this.#cutOff.endpoint
    throw new Error('No Sentinel names the primary')
  }
}
