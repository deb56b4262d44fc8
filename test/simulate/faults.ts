import { recordKeyName } from '../../src/domain/wire.ts'
import type { FAULTS, Step } from './plan.ts'
import type { ConsoleRun } from './world/console-process.ts'
import { DATABASE } from './world/database.ts'
import type { GatewayRun } from './world/gateway-process.ts'
import type { RedisServer } from './world/redis-server.ts'
import type { RedisSite } from './world/redis-site.ts'
import { SCOPES } from './world/settings.ts'
import type { World } from './world/world.ts'

/** Of clocks that are set. */
const MAX_JUMP_MS = 3_600_000
/** Of the way between two parts. */
const SLOW_MS = [0, 250] as const
/** Added to the distance of a region: more than what counts as far. */
const SLOW_REGION_MS = [300, 450] as const

/** What a step is about. */
class Target {
  readonly world: World
  readonly site: RedisSite
  /** Those of the region, and one of them. */
  readonly gateways: readonly GatewayRun[]
  readonly gateway: GatewayRun | null
  readonly console: ConsoleRun
  readonly server: RedisServer
  readonly durationMs: number

  constructor(world: World, { region, a, b, durationMs }: Step) {
    this.world = world
    this.durationMs = durationMs
    this.site = pick(world.sites, region)
    this.gateways = [...world.gateways.values()].filter(gateway => gateway.region === this.site.region)
    this.gateway = this.gateways.length === 0 ? null : pick(this.gateways, a)
    this.console = pick(world.consoles, b)
    this.server = pick(this.site.servers, b)
  }

  get gatewayName(): string {
    return this.gateway?.process.name ?? ''
  }

  get consoleName(): string {
    return this.console.process.name
  }

  /** A gateway or a console. */
  partOf(a: number): string {
    return a % 2 === 0 ? this.gatewayName : this.consoleName
  }

  block(one: string, other: string): void {
    this.world.network.way(one, other).block(this.durationMs)
  }

  blockFromRedis(name: string): void {
    for (const server of this.site.servers) this.block(name, server.name)
  }

  slow(one: string, other: string, extraMs: readonly [number, number]): void {
    this.world.laws.regions.slow(this.site.region, this.world.nowMs + this.durationMs)
    this.world.network.way(one, other).slow(extraMs, this.durationMs)
  }

  /** The key service may not answer the gateway, or any. */
  trouble(gateway: string | null): void {
    this.world.laws.trouble(gateway, this.world.nowMs + this.durationMs)
  }

  /** Each way between home and the region. */
  eachWay(use: (one: string, other: string) => void): void {
    const parts = [...this.site.servers, ...this.gateways.map(({ process }) => process)]
    for (const { process } of this.world.consoles) for (const { name } of parts) use(process.name, name)
    for (const { process } of this.gateways) this.trouble(process.name)
  }
}

function pick<Item>(items: readonly Item[], index: number): Item {
  const item = items[index % items.length]
  if (item === undefined) throw new RangeError('Nothing to pick from')
  return item
}

const isHeartbeat = (text: string): boolean => !text.includes('"digest"')

/** Attackers publish this often. */
const ATTACK_EVERY_MS = 120
const NO_MAC = 'A'.repeat(43)

/** Publishes what was recorded, in the same rhythm, or the heartbeats of another region as they are published. */
function replay({ world, site, durationMs }: Target, { a }: Step): void {
  const { scheduler } = world
  const source = pick(world.sites, a)
  const startMs = world.nowMs
  const publishAt = (atMs: number, text: string): void => scheduler.atServer(atMs, () => site.publish(text))
  if (source === site) {
    const recorded = source.published
    const firstMs = recorded[0]?.atMs ?? 0
    for (const { text, atMs } of recorded) {
      world.laws.copied(text)
      if (atMs - firstMs < durationMs) publishAt(startMs + atMs - firstMs, text)
    }
    return
  }
  repeat(world, durationMs, fromMs => {
    for (const { text, atMs } of source.published) if (atMs >= fromMs && isHeartbeat(text)) site.publish(text)
  })
}

/** A heartbeat that looks like the next one of the console that sent the last, and a change of each key. */
function forgeMessages({ world, site, durationMs }: Target): void {
  const forged = (text: string, more: object): string =>
    JSON.stringify({ ...JSON.parse(text), ...more, mac: NO_MAC })
  repeat(world, durationMs, () => {
    const { published } = site
    const heartbeat = published.findLast(({ text }) => isHeartbeat(text))
    if (heartbeat !== undefined) {
      const { monotonic, at } = JSON.parse(heartbeat.text)
      const sinceMs = Math.round(world.nowMs - heartbeat.atMs)
      site.publish(forged(heartbeat.text, { monotonic: monotonic + sinceMs, at: at + sinceMs }))
    }
    const change = published.findLast(({ text }) => !isHeartbeat(text))
    if (change !== undefined)
      for (const digest of world.digests) site.publish(forged(change.text, { digest, version: 1_000 }))
  })
}

/** Writes a record of each key that gives more than the key had, with the MAC of the record that is there. */
function forgeRecords({ world, site }: Target): void {
  for (const digest of world.digests) {
    const text = site.primary.textOf(recordKeyName(digest))
    if (text === '') continue
    const record = JSON.parse(text)
    const forged = {
      ...record,
      v: 1,
      revokedAt: null,
      scopes: SCOPES,
      version: record.version + 1,
      isForged: true,
    }
    for (const restriction of ['suspendedAt', 'allowedCidrs']) delete forged[restriction]
    site.primary.set(recordKeyName(digest), JSON.stringify(forged))
  }
}

function repeat(world: World, durationMs: number, run: (sinceMs: number) => void): void {
  const startMs = world.nowMs
  for (let atMs = startMs; atMs < startMs + durationMs; atMs += ATTACK_EVERY_MS) {
    world.scheduler.atServer(atMs, () => run(atMs - ATTACK_EVERY_MS))
  }
}

type Fault = (target: Target, step: Step) => void

const RUN: Readonly<Record<(typeof FAULTS)[number], Fault>> = {
  stall_redis: ({ server, durationMs }) => server.stall(durationMs),
  restart_redis: ({ site, world, durationMs }, { b }) => site.restart(durationMs, (world.nowMs * b) / 64),
  fail_over_dying: ({ site, durationMs }) => site.failOver('dies', durationMs),
  fail_over_frozen: ({ site, durationMs }) => site.failOver('freezes', durationMs),
  fail_over_cut_off: ({ site, durationMs }) => site.failOver('is_cut_off', durationMs),
  forget_connections: (target, step) => forget(target, step, false),
  reset_connections: (target, step) => forget(target, step, true),
  part_gateway_from_redis: target => target.blockFromRedis(target.gatewayName),
  part_gateway_from_console(target) {
    target.block(target.gatewayName, target.consoleName)
    target.trouble(target.gatewayName)
  },
  part_console_from_redis: target => target.blockFromRedis(target.consoleName),
  part_console_from_database(target) {
    target.block(target.consoleName, DATABASE)
    target.trouble(null)
  },
  part_claimer_from_redis: target => partClaimer(target),
  part_from_sentinels: (target, { a }) => target.block(target.partOf(a), target.site.sentinels),
  cut_off_region: target => target.eachWay((one, other) => target.block(one, other)),
  slow_region: target => target.eachWay((one, other) => target.slow(one, other, SLOW_REGION_MS)),
  slow_redis: (target, { a }) => target.slow(target.partOf(a), target.server.name, SLOW_MS),
  slow_console(target) {
    target.slow(target.gatewayName, target.consoleName, SLOW_MS)
    target.trouble(target.gatewayName)
  },
  stall_database(target) {
    target.world.database.stall(target.durationMs)
    target.trouble(null)
  },
  stall_writes: ({ world, durationMs }) => world.database.stallWrites(durationMs),
  lose_answers(target) {
    target.world.database.loseAnswers(target.durationMs)
    target.trouble(null)
  },
  restart_gateway({ world, gateway, durationMs }) {
    if (gateway?.process.isAlive !== true) return
    gateway.end()
    world.scheduler.at(world.nowMs + durationMs, () => world.startGateway(gateway.index))
  },
  restart_console(target) {
    const { world, console, durationMs } = target
    if (!console.process.isAlive) return
    const index = world.consoles.indexOf(console)
    console.end()
    target.trouble(null)
    world.scheduler.at(world.nowMs + durationMs, () => world.startConsole(index))
  },
  freeze_gateway(target) {
    target.gateway?.process.freeze(target.durationMs)
    target.trouble(target.gatewayName)
  },
  freeze_console(target) {
    target.console.process.freeze(target.durationMs)
    target.trouble(null)
  },
  jump_gateway_clock: ({ gateway }, step) => gateway?.process.jump(jumpOf(step)),
  lag_replica({ site, durationMs, world }) {
    const [one, other] = site.servers
    if (one !== undefined && other !== undefined) world.network.way(one.name, other.name).block(durationMs)
  },
  evict_records: ({ site, world }, { a }) =>
    site.evict(world.digests.filter((_, index) => a % 2 === 0 || index % 2 === 0).map(recordKeyName)),
  forge_records: target => forgeRecords(target),
  forge_messages: target => forgeMessages(target),
  replay_messages: (target, step) => replay(target, step),
  lag_key_service({ world, durationMs }) {
    world.database.lag(durationMs)
    world.laws.lagging(world.nowMs + durationMs)
  },
  jump_console_clock: ({ console }, step) => console.process.jump(jumpOf(step)),
}

/** The console that claims changes next cannot announce them. */
function partClaimer({ world, site, durationMs }: Target): void {
  const endMs = world.nowMs + durationMs
  world.onClaim = ({ name }) => {
    if (world.nowMs >= endMs) return
    for (const server of site.servers) world.network.way(name, server.name).block(endMs - world.nowMs)
    world.onClaim = () => {}
  }
}

export function breakSomething(world: World, kind: (typeof FAULTS)[number], step: Step): void {
  RUN[kind](new Target(world, step), step)
}

function forget({ site, gateway, console }: Target, { a }: Step, isNoticed: boolean): void {
  const name = (a % 3 === 0 || gateway === null ? console : gateway).process.name
  for (const server of site.servers) server.dropLinks(isNoticed, ({ client }) => client.name === name)
}

/** Up to an hour in either direction; half of them less than a second. */
function jumpOf({ a, durationMs }: Step): number {
  const size = a % 2 === 0 ? durationMs / 10 : Math.min(MAX_JUMP_MS, durationMs * 400)
  return a % 4 < 2 ? size : -size
}
