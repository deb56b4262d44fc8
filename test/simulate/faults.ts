import type { FAULTS, Step } from './plan.ts'
import { DATABASE } from './world/database.ts'
import { SENTINELS } from './world/redis-site.ts'
import type { World } from './world/world.ts'

/** Clocks that are set, and the largest constant delay: with longer ones the first heartbeat of a sender would be late. */
const MAX_JUMP_MS = 3_600_000
const MAX_SLOW_MS = 250

type Fault = (world: World, step: Step) => void

function gatewayOf({ gateways }: World, { a }: Step) {
  return gateways[a % gateways.length]
}

function consoleOf({ consoles }: World, { b }: Step) {
  return consoles[b % consoles.length]
}

function serverOf({ redis: { servers } }: World, { b }: Step) {
  return servers[b % servers.length]
}

const nameOf = (part: { readonly process: { readonly name: string } } | undefined): string =>
  part?.process.name ?? ''

const RUN: Readonly<Record<(typeof FAULTS)[number], Fault>> = {
  stall_redis: (world, step) => serverOf(world, step)?.stall(step.durationMs),
  restart_redis: (world, step) => world.redis.restart(step.durationMs, (world.nowMs * step.b) / 64),
  fail_over_dying: (world, step) => world.redis.failOver('dies', step.durationMs),
  fail_over_frozen: (world, step) => world.redis.failOver('freezes', step.durationMs),
  fail_over_cut_off: (world, step) => world.redis.failOver('is_cut_off', step.durationMs),
  forget_connections: (world, step) => forget(world, step, false),
  reset_connections: (world, step) => forget(world, step, true),
  part_gateway_from_redis(world, step) {
    for (const { name } of world.redis.servers) {
      world.network.block(nameOf(gatewayOf(world, step)), name, step.durationMs)
    }
  },
  part_gateway_from_console(world, step) {
    const gateway = nameOf(gatewayOf(world, step))
    world.network.block(gateway, nameOf(consoleOf(world, step)), step.durationMs)
    world.laws.trouble(gateway, world.nowMs + step.durationMs)
  },
  part_console_from_redis(world, step) {
    for (const { name } of world.redis.servers) {
      world.network.block(nameOf(consoleOf(world, step)), name, step.durationMs)
    }
  },
  part_console_from_database(world, step) {
    world.network.block(nameOf(consoleOf(world, step)), DATABASE, step.durationMs)
    world.laws.trouble(null, world.nowMs + step.durationMs)
  },
  part_from_sentinels(world, step) {
    const part = step.a % 2 === 0 ? gatewayOf(world, step) : consoleOf(world, step)
    world.network.block(nameOf(part), SENTINELS, step.durationMs)
  },
  slow_redis(world, step) {
    const part = step.a % 2 === 0 ? gatewayOf(world, step) : consoleOf(world, step)
    const server = serverOf(world, step)
    world.network.slow(nameOf(part), server?.name ?? '', MAX_SLOW_MS, step.durationMs)
  },
  slow_console(world, step) {
    const [gateway, console] = [nameOf(gatewayOf(world, step)), nameOf(consoleOf(world, step))]
    world.network.slow(gateway, console, MAX_SLOW_MS, step.durationMs)
    world.laws.trouble(gateway, world.nowMs + step.durationMs)
  },
  stall_database(world, step) {
    world.database.stall(step.durationMs)
    world.laws.trouble(null, world.nowMs + step.durationMs)
  },
  stall_writes: (world, step) => world.database.stallWrites(step.durationMs),
  lose_answers(world, step) {
    world.database.loseAnswers(step.durationMs)
    world.laws.trouble(null, world.nowMs + step.durationMs)
  },
  restart_gateway(world, step) {
    const index = step.a % world.gateways.length
    world.gateways[index]?.end()
    world.scheduler.at(world.nowMs + step.durationMs, () => world.startGateway(index))
  },
  restart_console(world, step) {
    const index = step.b % world.consoles.length
    const before = world.consoles[index]
    if (before?.process.isAlive !== true) return
    before.end()
    world.laws.trouble(null, world.nowMs + step.durationMs)
    world.scheduler.at(world.nowMs + step.durationMs, () => world.startConsole(index))
  },
  freeze_gateway(world, step) {
    const gateway = gatewayOf(world, step)
    gateway?.process.freeze(step.durationMs)
    world.laws.trouble(nameOf(gateway), world.nowMs + step.durationMs)
  },
  freeze_console(world, step) {
    consoleOf(world, step)?.process.freeze(step.durationMs)
    world.laws.trouble(null, world.nowMs + step.durationMs)
  },
  jump_gateway_clock: (world, step) => gatewayOf(world, step)?.process.jump(jumpOf(step)),
  jump_console_clock: (world, step) => consoleOf(world, step)?.process.jump(jumpOf(step)),
}

export function breakSomething(world: World, kind: (typeof FAULTS)[number], step: Step): void {
  RUN[kind](world, step)
}

function forget(world: World, step: Step, isNoticed: boolean): void {
  const part = step.a % 3 === 0 ? consoleOf(world, step) : gatewayOf(world, step)
  const name = nameOf(part)
  for (const server of world.redis.servers) server.dropLinks(isNoticed, ({ client }) => client.name === name)
}

/** Up to an hour in either direction; half of them less than a second. */
function jumpOf({ a, durationMs }: Step): number {
  const size = a % 2 === 0 ? durationMs / 10 : Math.min(MAX_JUMP_MS, durationMs * 400)
  return a % 4 < 2 ? size : -size
}
