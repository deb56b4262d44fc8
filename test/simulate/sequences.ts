import type { Settings, Step, StepKind } from './plan.ts'
import type { Random } from './world/random.ts'

/** Steps that break a law only together and in this order, and are rare among all others. */
export interface Sequence {
  readonly settings: Partial<Settings>
  readonly steps: readonly Step[]
  readonly calmAtMs: number
}

/** What leads to an operation of a console; the key exists from the start. */
const CHANGES = ['revoke', 'suspend', 'narrow'] as const
/** Those of a key that was narrowed before. */
const LATER_CHANGES = ['revoke', 'suspend'] as const
/** A change from which on Redis has a record of the key. */
const RECORDED_MS = 300
const FIRST_KEY = 0

const MAKERS = [
  oldRedis,
  lateHeartbeat,
  lostReply,
  otherServer,
  undrained,
  splitRedis,
  lateConsole,
  frozenLookup,
  partedConsole,
  partedRegion,
  missedChange,
  halfRecovered,
  staleUse,
  recordedHeartbeats,
  foreignHeartbeats,
  loweredFloor,
  absentBelowFloor,
  crossedLookups,
  importedKey,
  twoChanges,
]

export function sequenceOf(random: Random): Sequence {
  return random.pick(MAKERS)(random)
}

/** @param a and b: see `Step` */
function step(kind: StepKind, fromMs: number, untilMs: number, a = 0, b = FIRST_KEY): Step {
  const atMs = Math.round(fromMs)
  return { kind, atMs, durationMs: Math.max(0, Math.round(untilMs) - atMs), region: 0, a, b }
}

/**
 * Redis goes back to old records, what puts it right is slow, and a gateway that knows nothing reads it meanwhile. Others would put it
 * right by their lookups, as would this one before it is connected.
 */
function oldRedis(random: Random): Sequence {
  const isWatched = random.chance(0.5)
  const lostMs = random.between(1_500, 2_500)
  const changedMs = lostMs - random.between(500, 1_300)
  const stalledMs = lostMs + random.between(-50, 50)
  const downMs = isWatched ? random.between(500, 1_000) : random.between(20, 300)
  const lose = isWatched
    ? [step('lag_replica', changedMs - 50, lostMs + 50), step('fail_over_dying', lostMs, lostMs + downMs)]
    : [step('restart_redis', lostMs, lostMs + downMs, 0, keptUntil(changedMs, lostMs))]
  return {
    settings: { isWatched, gateways: 1, keys: 4, requestEveryMs: 400 },
    steps: [
      step('narrow', RECORDED_MS, RECORDED_MS),
      step(random.pick(LATER_CHANGES), changedMs, changedMs, random.below(64)),
      ...lose,
      step('stall_writes', stalledMs, stalledMs + random.between(3_500, 5_000)),
      step('restart_gateway', lostMs - 20, lostMs + downMs + random.between(0, 500)),
    ],
    calmAtMs: 7_500,
  }
}

/** @returns what `restart_redis` takes: Redis has nothing of a change or later */
function keptUntil(changedMs: number, lostMs: number): number {
  return Math.max(0, Math.floor((64 * changedMs) / lostMs) - 1)
}

/** The heartbeats of a second reach a gateway at once, and those before a change say nothing of it: no console can announce it. */
function lateHeartbeat(random: Random): Sequence {
  const changedMs = random.between(1_200, 2_000)
  const changes = [0, 2, 4, 6].flatMap(key => [
    step('narrow', RECORDED_MS, RECORDED_MS, 0, key),
    step(random.pick(LATER_CHANGES), changedMs, changedMs, 1, key),
  ])
  return {
    settings: { consoles: 2, gateways: 1, keys: 8, isWatched: false, requestEveryMs: 400 },
    steps: [
      step(
        'part_gateway_from_redis',
        changedMs - random.between(0, 100),
        changedMs + random.between(1_100, 1_700),
      ),
      // It commits; the other would announce what it finds in the outbox.
      step('part_console_from_redis', changedMs - 20, 5_500, 0, 1),
      ...changes,
      step('stall_writes', changedMs + random.between(20, 40), 5_500),
    ],
    calmAtMs: 6_000,
  }
}

/** After a long silence a gateway reconnects rarely, and then its subscription gets no reply or is forgotten. */
function lostReply(random: Random): Sequence {
  const silentMs = random.between(300, 600)
  const stalledMs = silentMs + random.between(6_800, 7_400)
  const calmAtMs = Math.round(silentMs + 10_500)
  return {
    settings: { isWatched: false },
    steps: [
      step('part_console_from_redis', silentMs, calmAtMs - 200),
      step('part_console_from_redis', silentMs, calmAtMs - 200, 0, 1),
      random.chance(0.5)
        ? step('stall_redis', stalledMs, calmAtMs)
        : step('forget_connections', calmAtMs - random.between(100, 1_500), calmAtMs, 1, random.below(64)),
    ],
    calmAtMs,
  }
}

/** A gateway wakes up after a failover: only one of its two connections was closed. */
function otherServer(random: Random): Sequence {
  const wakesMs = random.between(4_000, 5_500)
  const changedMs = wakesMs - random.between(100, 600)
  return {
    settings: { isWatched: true, requestEveryMs: random.pick([150, 400]) },
    steps: [
      step('fail_over_cut_off', 500, 9_000),
      step('freeze_gateway', random.between(600, 1_000), wakesMs),
      step(random.pick(CHANGES), changedMs, changedMs, random.below(64)),
    ],
    calmAtMs: 9_500,
  }
}

/** A change is committed without an answer, and no console can take it from the outbox. */
function undrained(random: Random): Sequence {
  const changedMs = random.between(1_200, 2_000)
  const stalledMs = changedMs + random.between(4, 25)
  return {
    settings: {},
    steps: [
      step('lose_answers', changedMs - 20, changedMs + 60),
      step(random.pick(CHANGES), changedMs, changedMs, random.below(64)),
      step('stall_writes', stalledMs, stalledMs + random.between(3_500, 5_000)),
    ],
    calmAtMs: 7_200,
  }
}

/** A console stays with a primary that was replaced, because it reaches no Sentinel; the other goes to the new one. */
function splitRedis(random: Random): Sequence {
  const changedMs = random.between(3_700, 6_000)
  return {
    settings: { isWatched: true, consoles: 2 },
    steps: [
      step('part_from_sentinels', 400, 9_000, 1, random.below(2)),
      step('fail_over_cut_off', 500, 9_000),
      step(random.pick(CHANGES), changedMs, changedMs, random.below(64)),
    ],
    calmAtMs: 9_500,
  }
}

/** The same at the moment of the failover: the console has not noticed, and the other has already announced what was lost. */
function lateConsole(random: Random): Sequence {
  // Sentinels that have no more time than the least take that.
  const failedMs = random.between(1_000, 1_500)
  const promotedMs = failedMs + 500
  const changedMs = promotedMs + random.between(150, 400)
  const console = random.below(2)
  return {
    settings: { isWatched: true, consoles: 2, gateways: 3, keys: 4, requestEveryMs: 400 },
    steps: [
      step('narrow', RECORDED_MS, RECORDED_MS),
      step('fail_over_cut_off', failedMs, promotedMs),
      step('part_from_sentinels', promotedMs - random.between(0, 20), 7_000, 1, console),
      step(random.pick(LATER_CHANGES), changedMs, changedMs, console),
    ],
    calmAtMs: 7_200,
  }
}

/** A gateway is suspended right after its start, while its lookups are under way to a slow key service, and a key changes meanwhile. */
function frozenLookup(random: Random): Sequence {
  const frozenMs = random.between(50, 250)
  const changedMs = frozenMs + random.between(200, 1_000)
  return {
    settings: { consoles: 1, keys: 1, requestEveryMs: 50 },
    steps: [
      step('slow_console', 0, changedMs),
      step('freeze_gateway', frozenMs, changedMs + random.between(2_100, 3_500)),
      step(random.pick(CHANGES), changedMs, changedMs),
    ],
    calmAtMs: 5_000,
  }
}

/** A console cannot announce, and the heartbeats of another go on: it must leave its changes to that one. */
function partedConsole(random: Random): Sequence {
  const partedMs = random.between(800, 2_000)
  const console = random.below(2)
  const changes = Array.from({ length: 3 }, () => {
    const changedMs = partedMs + random.between(0, 600)
    return step(random.pick(CHANGES), changedMs, changedMs, console, random.below(64))
  })
  return {
    settings: { isWatched: false, consoles: 2, requestEveryMs: 50 },
    steps: [step('part_console_from_redis', partedMs, partedMs + 3_500, 0, console), ...changes],
    calmAtMs: 6_000,
  }
}

/** The same with the Redis of one region alone: what the others have got is not done there. */
function partedRegion(random: Random): Sequence {
  const partedMs = random.between(800, 2_000)
  const changedMs = partedMs + random.between(50, 1_500)
  const [region, console] = [random.below(2), random.below(2)]
  return {
    settings: { ...TWO_REGIONS, isWatched: false, consoles: 2, gateways: 2 },
    steps: [
      { ...step('part_console_from_redis', partedMs, partedMs + 4_500, 0, console), region },
      step(random.pick(CHANGES), changedMs, changedMs, console),
    ],
    calmAtMs: 7_000,
  }
}

/** The subscription of a gateway is lost for a moment, and a change is announced meanwhile. */
function missedChange(random: Random): Sequence {
  const resetMs = random.between(800, 2_000)
  const changes = [0, 1].map(() => {
    const changedMs = resetMs + random.between(-10, 60)
    return step(random.pick(CHANGES), changedMs, changedMs, random.below(64), random.below(64))
  })
  return {
    settings: { gateways: 1, keys: 2, ttlMs: 30_000, requestEveryMs: 50 },
    steps: [step('reset_connections', resetMs, resetMs, 1), ...changes],
    calmAtMs: 5_000,
  }
}

/** Redis comes back with old records; of two consoles, one claims what is announced again, and cannot announce it. */
function halfRecovered(random: Random): Sequence {
  const changedMs = random.between(600, 1_200)
  const lostMs = changedMs + random.between(2_100, 2_500)
  const backMs = lostMs + random.between(20, 50)
  return {
    settings: { isWatched: false, consoles: 2, gateways: 1, keys: 2, requestEveryMs: 400 },
    steps: [
      step('narrow', RECORDED_MS, RECORDED_MS),
      step(random.pick(LATER_CHANGES), changedMs, changedMs, random.below(2)),
      step('restart_redis', lostMs, backMs, 0, keptUntil(changedMs, lostMs)),
      step('part_claimer_from_redis', lostMs, backMs + 2_500),
      step('restart_gateway', lostMs - 20, backMs + random.between(0, 60)),
    ],
    calmAtMs: 7_000,
  }
}

/** A gateway reaches no store for longer than a stale record may be used, and clients go on. */
function staleUse(random: Random): Sequence {
  const partedMs = random.between(600, 1_500)
  const endMs = partedMs + 4_000 + random.between(1_500, 4_000)
  const gateway = random.below(64)
  return {
    settings: { consoles: 1, keys: 2, staleMs: 4_000, requestEveryMs: 50 },
    steps: [
      step('part_gateway_from_redis', partedMs, endMs, gateway),
      step('part_gateway_from_console', partedMs, endMs, gateway),
    ],
    calmAtMs: Math.round(endMs) + 200,
  }
}

/** An attacker repeats what consoles published, at a gateway that has just started, while they cannot publish. */
function recordedHeartbeats(random: Random): Sequence {
  const partedMs = random.between(3_000, 4_000)
  const replayedMs = partedMs + random.between(1_100, 1_500)
  const restartedMs = partedMs + random.between(0, 1_000)
  const changedMs = partedMs + random.between(0, 1_000)
  return {
    settings: { isWatched: false, consoles: 1, gateways: 2, keys: 1, requestEveryMs: 50 },
    steps: [
      step('part_console_from_redis', partedMs, 9_000),
      step('restart_gateway', restartedMs, restartedMs + 20, random.below(2)),
      step(random.pick(CHANGES), changedMs, changedMs),
      step('replay_messages', replayedMs, replayedMs + 4_000),
    ],
    calmAtMs: 9_200,
  }
}

/** The same with heartbeats of another region, which the consoles still reach. */
function foreignHeartbeats(random: Random): Sequence {
  const partedMs = random.between(1_500, 3_000)
  const changedMs = partedMs + random.between(0, 1_000)
  return {
    settings: { ...TWO_REGIONS, isWatched: false, consoles: 1, gateways: 2, keys: 1, requestEveryMs: 50 },
    steps: [
      step('part_console_from_redis', partedMs, 7_000),
      step(random.pick(CHANGES), changedMs, changedMs),
      step('replay_messages', partedMs, 6_500, 1),
    ],
    calmAtMs: 7_200,
  }
}
const TWO_REGIONS: Partial<Settings> = { distancesMs: [0, 5], isQuiet: false, addsRegion: false }

/** An older change is repeated, Redis has lost the record, and the key service lags behind the newer one. */
function loweredFloor(random: Random): Sequence {
  const firstMs = random.between(500, 900)
  const secondMs = firstMs + random.between(900, 1_400)
  const [first, second] = random.pick([
    ['narrow', 'revoke'],
    ['suspend', 'revoke'],
    ['narrow', 'widen'],
  ] as const)
  const replayedMs = secondMs + random.between(20, 200)
  return {
    settings: { isWatched: false, keys: 2, ttlMs: 1_000, floors: 32, staleMs: 0, isRealDatabase: false },
    steps: [
      step(first, firstMs, firstMs),
      step('lag_key_service', firstMs + random.between(200, 600), secondMs + 3_500),
      step(second, secondMs, secondMs),
      ...[20, 400, 800, 1_200].map(afterMs => step('evict_records', secondMs + afterMs, secondMs + afterMs)),
      step('replay_messages', replayedMs, replayedMs + 3_000),
    ],
    calmAtMs: Math.round(secondMs) + 4_000,
  }
}

/** A key is issued and announced; Redis loses it, and the key service does not know it yet. */
function absentBelowFloor(random: Random): Sequence {
  const issuedMs = random.between(800, 1_500)
  const evicted = [5, 50, 300, 600].map(afterMs => {
    const atMs = issuedMs + afterMs * random.between(1, 2)
    return step('evict_records', atMs, atMs)
  })
  return {
    settings: { keys: 2, ttlMs: 1_000, floors: 32, staleMs: 0, requestEveryMs: 50, isRealDatabase: false },
    steps: [
      step('lag_key_service', issuedMs - random.between(50, 300), issuedMs + 2_500),
      step('issue', issuedMs, issuedMs, random.below(64), 1),
      ...evicted,
    ],
    calmAtMs: Math.round(issuedMs) + 3_000,
  }
}

/** Changes of two keys overtake a lookup at a slow key service, at a gateway that remembers the announced version of one. */
function crossedLookups(random: Random): Sequence {
  const startMs = random.between(1_200, 1_600)
  const changes = [0, 1, 2].flatMap(group => {
    const atMs = startMs + group * 2_000
    const [first, second] =
      group % 2 === 0 ? (['suspend', 'resume'] as const) : (['narrow', 'widen'] as const)
    const secondMs = atMs + random.between(150, 300)
    const otherMs = secondMs + random.between(10, 40)
    return [
      step(first, atMs, atMs),
      // The lookup that follows goes to the key service.
      ...[15, 30, 45].map(afterMs => step('evict_records', atMs + afterMs, atMs + afterMs)),
      step(second, secondMs, secondMs),
      step(group % 2 === 0 ? 'narrow' : 'widen', otherMs, otherMs, 0, 2),
    ]
  })
  return {
    settings: {
      isWatched: false,
      consoles: 1,
      gateways: 1,
      keys: 3,
      ttlMs: 30_000,
      floors: 1,
      requestEveryMs: 50,
    },
    steps: [step('slow_console', startMs - 200, startMs + 5_000), ...changes],
    calmAtMs: Math.round(startMs) + 6_500,
  }
}

/** A key is imported that clients have used already. */
function importedKey(random: Random): Sequence {
  const importedMs = random.between(800, 1_600)
  return {
    settings: { keys: 2, requestEveryMs: 50, isRealDatabase: random.chance(0.5) },
    steps: [step('import', importedMs, importedMs, 1, 1)],
    calmAtMs: Math.round(importedMs) + 3_000,
  }
}

/** Two people change one key at the same moment, at two consoles. */
function twoChanges(random: Random): Sequence {
  const changes = Array.from({ length: 3 }, () => {
    const atMs = random.between(600, 2_000)
    const key = random.below(4)
    return [0, 1].map(console => step(random.pick(CHANGES), atMs, atMs, console, key))
  })
  return {
    settings: { consoles: 2, keys: 4, requestEveryMs: 400, isRealDatabase: random.chance(0.5) },
    steps: changes.flat(),
    calmAtMs: 2_500,
  }
}
