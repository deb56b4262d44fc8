import { Random } from './world/random.ts'

/** What stays the same during a schedule. */
export interface Settings {
  readonly consoles: number
  readonly gateways: number
  readonly keys: number
  /** Two servers and Sentinels, instead of one server. */
  readonly isWatched: boolean
  readonly ttlMs: number
  readonly staleMs: number
  /** Mean time between two requests of a gateway. */
  readonly requestEveryMs: number
}

/** Each index is taken modulo the number of such parts, so that a step stays valid in a smaller plan. */
export type Step = {
  readonly atMs: number
  readonly durationMs: number
  readonly a: number
  readonly b: number
} & {
  readonly kind: StepKind
}

export const OPERATIONS = ['issue', 'revoke', 'suspend', 'resume', 'narrow', 'shorten'] as const
export const FAULTS = [
  'stall_redis',
  'restart_redis',
  'fail_over_dying',
  'fail_over_frozen',
  'fail_over_cut_off',
  'forget_connections',
  'reset_connections',
  'part_gateway_from_redis',
  'part_gateway_from_console',
  'part_console_from_redis',
  'part_console_from_database',
  'part_from_sentinels',
  'slow_redis',
  'slow_console',
  'stall_database',
  'stall_writes',
  'lose_answers',
  'restart_gateway',
  'restart_console',
  'freeze_gateway',
  'freeze_console',
  'jump_gateway_clock',
  'jump_console_clock',
] as const
export type StepKind = (typeof OPERATIONS)[number] | (typeof FAULTS)[number]

/** A schedule: what is done, and what fails. The same plan always runs the same way. */
export interface Plan {
  readonly seed: number
  readonly settings: Settings
  readonly steps: readonly Step[]
  /** From then on nothing fails and nothing changes. */
  readonly calmAtMs: number
}

/** Time in which everything must agree once it is calm. */
export const AGREEMENT_MS = 5_000
const SHORTEST_MS = 1_000
const LONGEST_MS = 54_000
const MAX_FAULTS = 8
const TOGETHER_MS = 700
/** Sentinels need time to agree. */
const FAIL_OVER_MS = [1_000, 8_000] as const

export function planOf(seed: number): Plan {
  const random = new Random(seed ^ 0x5bd1e995)
  // Most schedules are short: a race needs few steps, and a long one costs as much as several short ones.
  const calmAtMs = Math.round(SHORTEST_MS + (LONGEST_MS - SHORTEST_MS) * random.next() ** 4)
  const settings: Settings = {
    consoles: random.chance(0.4) ? 2 : 1,
    gateways: 1 + random.below(3),
    keys: 1 + random.below(4),
    isWatched: random.chance(0.4),
    ttlMs: random.pick([1_000, 30_000, 30_000]),
    staleMs: random.pick([0, 0, 300_000]),
    requestEveryMs: random.pick([50, 150, 400]),
  }
  const operations = 2 + random.below(4 + calmAtMs / 1_000)
  const faults = random.chance(0.05) ? 0 : 1 + random.below(MAX_FAULTS)
  const anyTime = (): number => random.between(0, calmAtMs * 0.95)
  // Half of the schedules have their faults together: what one of them leaves behind is gone after a few seconds.
  const centreMs = anyTime()
  const nearby = (): number =>
    Math.min(calmAtMs * 0.95, Math.max(0, centreMs + random.between(-TOGETHER_MS, TOGETHER_MS)))
  const faultTime = random.chance(0.5) ? nearby : anyTime
  // Half of them have few kinds of faults: a race of three is rare among all kinds. A gateway that starts anew knows nothing.
  const few = [...Array.from({ length: 3 }, () => random.pick(FAULTS)), 'restart_gateway' as const]
  const kinds = random.chance(0.5) ? few : FAULTS
  const steps = [
    ...Array.from({ length: operations }, () => stepOf(random, random.pick(OPERATIONS), anyTime(), calmAtMs)),
    ...Array.from({ length: faults }, () => stepOf(random, random.pick(kinds), faultTime(), calmAtMs)),
  ]
  return { seed, settings, calmAtMs, steps: steps.sort((one, other) => one.atMs - other.atMs) }
}

function stepOf(random: Random, kind: StepKind, time: number, calmAtMs: number): Step {
  const atMs = Math.round(time)
  // From 20 ms to 10 s, short ones as often as long ones.
  const anyMs = 20 * 500 ** random.next()
  const wantedMs = kind.startsWith('fail_over') ? random.between(...FAIL_OVER_MS) : anyMs
  const durationMs = Math.round(Math.min(wantedMs, calmAtMs - atMs))
  return { atMs, durationMs, kind, a: random.below(64), b: random.below(64) }
}
