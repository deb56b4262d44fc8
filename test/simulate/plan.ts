import { sequenceOf } from './sequences.ts'
import { Random } from './world/random.ts'

/** What stays the same during a schedule. */
export interface Settings {
  readonly consoles: number
  readonly gateways: number
  readonly keys: number
  /** Two servers and Sentinels in each region, instead of one server. */
  readonly isWatched: boolean
  readonly ttlMs: number
  readonly staleMs: number
  /** Announced versions that a gateway remembers; beyond that, the one that was used least is evicted. */
  readonly floors: number
  /** Mean time between two requests of a gateway. */
  readonly requestEveryMs: number
  /** Of each region from the consoles, one way. A single one is an installation without regions. */
  readonly distancesMs: readonly number[]
  /** The consoles learn of the last region only at a step; its Redis has records of the time before. */
  readonly addsRegion: boolean
  /** The program's statements in SQLite, instead of their model. */
  readonly isRealDatabase: boolean
  /** No packet is lost and no statement is slow, and faults hit one region: the others notice nothing. */
  readonly isQuiet: boolean
}

/** Each index is taken modulo the number of such parts, so that a step stays valid in a smaller plan. */
export type Step = {
  readonly atMs: number
  readonly durationMs: number
  readonly region: number
  readonly a: number
  readonly b: number
} & {
  readonly kind: StepKind
}

export const OPERATIONS = [
  'issue',
  'revoke',
  'suspend',
  'resume',
  'narrow',
  'widen',
  'shorten',
  'rotate',
  'revoke_all',
  'import',
] as const
/** They hit one region, and no console or database. */
const FAULTS_OF_A_REGION = [
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
  'part_claimer_from_redis',
  'part_from_sentinels',
  'cut_off_region',
  'slow_region',
  'slow_redis',
  'slow_console',
  'restart_gateway',
  'freeze_gateway',
  'jump_gateway_clock',
  'lag_replica',
  'evict_records',
  'forge_records',
  'forge_messages',
  'replay_messages',
] as const
export const FAULTS = [
  ...FAULTS_OF_A_REGION,
  'part_console_from_database',
  'stall_database',
  'stall_writes',
  'lose_answers',
  'restart_console',
  'freeze_console',
  'jump_console_clock',
  'lag_key_service',
] as const
export type FaultKind = (typeof FAULTS)[number]
export type StepKind = (typeof OPERATIONS)[number] | FaultKind | 'add_region'

/** A schedule: what is done, and what fails. The same plan always runs the same way. */
export interface Plan {
  readonly seed: number
  readonly settings: Settings
  readonly steps: readonly Step[]
  /** From then on nothing fails and nothing changes. */
  readonly calmAtMs: number
}

const ONLY_SINGLE: readonly FaultKind[] = ['restart_redis']
const ONLY_WATCHED: readonly FaultKind[] = [
  'fail_over_dying',
  'fail_over_frozen',
  'fail_over_cut_off',
  'part_from_sentinels',
  'lag_replica',
]
/** What a key service says that lags is used for this long, and must have expired when all agree. */
const LAGGING_TTL_MS = 1_000
/** Redis goes back to old records, what puts it right is slow, and a gateway that knows nothing reads it meanwhile. */
const REDIS_FAMILY: readonly FaultKind[] = [
  'restart_redis',
  'fail_over_dying',
  'stall_writes',
  'restart_gateway',
]
/** A heartbeat or a reply is late, and a change was committed meanwhile that is not announced. */
const LATE_FAMILY: readonly FaultKind[] = [
  'stall_redis',
  'freeze_console',
  'stall_writes',
  'lose_answers',
  'reset_connections',
]
const FAMILIES = [REDIS_FAMILY, LATE_FAMILY]
/** A region looks far, and a committed change is not announced. */
const FAR_FAMILY: readonly FaultKind[] = ['slow_region', 'stall_writes', 'lose_answers', 'restart_console']

/** Time in which everything must agree once it is calm. */
const AGREEMENT_MS = 5_000
/**
 * An attempt to connect to a region may take two seconds and the pause after it one. Then Sentinels, connection, probe, confirmation and
 * announcement take up to nine round trips of half a second each. Of 20,000 schedules, 15 take more than five seconds.
 */
const AGREEMENT_OF_REGIONS_MS = 8_000
export const agreementMs = ({ distancesMs }: Settings): number =>
  distancesMs.length > 1 ? AGREEMENT_OF_REGIONS_MS : AGREEMENT_MS
/** More than there are keys. */
const MANY_FLOORS = 32
const SHORTEST_MS = 1_000
const LONGEST_MS = 54_000
const MAX_FAULTS = 8
/** Share of the schedules that consist of a sequence. */
const AIMED = 0.4
/** Share of the others that have regions. */
const OF_REGIONS = 0.4
/** Share of the schedules with the program's statements in SQLite, which take three times as long. */
const REAL = 0.04
const TOGETHER_MS = 700
/** Sentinels need time to agree. */
const FAIL_OVER_MS = [1_000, 8_000] as const
/** Within a data centre, a continent, and around the world. */
const DISTANCES_MS = [0, 5, 80, 250] as const

export function planOf(seed: number): Plan {
  const random = new Random(seed ^ 0x5bd1e995)
  const { settings, steps, calmAtMs } = random.chance(AIMED) ? aimedPlan(random) : randomPlan(random)
  return { seed, settings, calmAtMs, steps: steps.sort((one, other) => one.atMs - other.atMs) }
}

type Parts = Omit<Plan, 'seed' | 'steps'> & { readonly steps: Step[] }

function randomPlan(random: Random): Parts {
  // Most schedules are short: a race needs few steps, and a long one costs as much as several short ones.
  const calmAtMs = Math.round(SHORTEST_MS + (LONGEST_MS - SHORTEST_MS) * random.next() ** 4)
  const settings = settingsOf(random)
  const operations = 2 + random.below(4 + calmAtMs / 1_000)
  const faults = random.chance(0.05) ? 0 : 1 + random.below(MAX_FAULTS)
  // Half of the schedules have their faults together: what one of them leaves behind is gone after a few seconds.
  const anyTime = (): number => random.between(0, calmAtMs * 0.95)
  const centreMs = anyTime()
  const nearby = (): number =>
    Math.min(calmAtMs * 0.95, Math.max(0, centreMs + random.between(-TOGETHER_MS, TOGETHER_MS)))
  const isTogether = random.chance(0.5)
  const operationTime = isTogether && random.chance(0.5) ? nearby : anyTime
  const kinds = kindsOf(random, settings)
  const region = random.below(64)
  const faultOf = (): Step => {
    const step = stepOf(random, random.pick(kinds), (isTogether ? nearby : anyTime)(), calmAtMs)
    return settings.isQuiet ? { ...step, region } : step
  }
  const steps = [
    ...Array.from({ length: operations }, () =>
      stepOf(random, random.pick(OPERATIONS), operationTime(), calmAtMs),
    ),
    ...Array.from({ length: faults }, faultOf),
    ...(settings.addsRegion ? [stepOf(random, 'add_region', random.between(0, calmAtMs / 2), calmAtMs)] : []),
  ]
  return { settings, calmAtMs, steps }
}

/** A sequence, and little beside it that may make another of it. */
function aimedPlan(random: Random): Parts {
  const { settings: fixed, steps: sequence, calmAtMs } = sequenceOf(random)
  const settings = { ...settingsOf(random, 1), ...fixed }
  const some = <Kind extends StepKind>(count: number, kinds: readonly Kind[]): Step[] =>
    Array.from({ length: count }, () =>
      stepOf(random, random.pick(kinds), random.between(0, calmAtMs * 0.95), calmAtMs),
    )
  const more = [
    ...some(random.below(3), OPERATIONS),
    ...some(random.chance(0.5) ? 1 : 0, kindsOf(random, settings)),
  ]
  return { settings, calmAtMs, steps: [...sequence, ...more] }
}

/** Most schedules have few kinds of faults: a race of three is rare among all kinds. A gateway that starts anew knows nothing. */
function kindsOf(
  random: Random,
  { isQuiet, isWatched, isRealDatabase, distancesMs, ttlMs }: Settings,
): readonly FaultKind[] {
  const isPossible = (kind: FaultKind): boolean =>
    !(isWatched ? ONLY_SINGLE : ONLY_WATCHED).includes(kind) &&
    (kind !== 'lag_key_service' || (ttlMs === LAGGING_TTL_MS && !isRealDatabase))
  const all = (isQuiet ? FAULTS_OF_A_REGION : FAULTS).filter(isPossible)
  const few = [...Array.from({ length: 3 }, () => random.pick(all)), 'restart_gateway' as const]
  if (isQuiet) return random.pick([all, few])
  const family = distancesMs.length > 1 && random.chance(0.5) ? FAR_FAMILY : random.pick(FAMILIES)
  return random.pick([all, few, family.filter(isPossible)])
}

function settingsOf(random: Random, regions = random.chance(OF_REGIONS) ? 2 + random.below(2) : 1): Settings {
  return {
    consoles: random.pick([1, 1, 1, 2, 2, 3]),
    gateways: regions === 1 ? 1 + random.below(3) : regions + random.below(2),
    keys: 1 + random.below(4),
    isWatched: random.chance(0.4),
    ttlMs: random.pick([1_000, 30_000, 30_000]),
    staleMs: random.pick([0, 0, 4_000, 300_000]),
    floors: random.pick([1, MANY_FLOORS, MANY_FLOORS, MANY_FLOORS]),
    requestEveryMs: random.pick([50, 150, 400]),
    isRealDatabase: random.chance(REAL),
    distancesMs: regions === 1 ? [0] : Array.from({ length: regions }, () => random.pick(DISTANCES_MS)),
    ...(regions === 1 ? { isQuiet: false, addsRegion: false } : whatHappensTo(random)),
  }
}

function whatHappensTo(random: Random): Pick<Settings, 'isQuiet' | 'addsRegion'> {
  const isQuiet = random.chance(0.3)
  return { isQuiet, addsRegion: !isQuiet && random.chance(0.3) }
}

function stepOf(random: Random, kind: StepKind, time: number, calmAtMs: number): Step {
  const atMs = Math.round(time)
  // From 20 ms to 10 s, short ones as often as long ones.
  const anyMs = 20 * 500 ** random.next()
  const wantedMs = kind.startsWith('fail_over') ? random.between(...FAIL_OVER_MS) : anyMs
  const durationMs = Math.round(Math.min(wantedMs, calmAtMs - atMs))
  return { atMs, durationMs, kind, region: random.below(64), a: random.below(64), b: random.below(64) }
}
