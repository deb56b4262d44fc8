import type { Plan } from './plan.ts'

interface KeptPlan {
  readonly name: string
  /** As it was when it broke the law, made smaller. */
  readonly plan: Plan
}

export const KEPT_PLANS: readonly KeptPlan[] = [
  {
    name: 'an answer of the key service from before the gateway was suspended is not used afterwards',
    plan: {
      seed: 10_090,
      settings: {
        consoles: 1,
        gateways: 1,
        keys: 1,
        isWatched: false,
        ttlMs: 30_000,
        staleMs: 0,
        requestEveryMs: 150,
        distancesMs: [0],
        addsRegion: false,
        isQuiet: false,
      },
      calmAtMs: 3_787,
      steps: [
        { atMs: 101, durationMs: 3_136, kind: 'freeze_gateway', region: 0, a: 4, b: 3 },
        { atMs: 638, durationMs: 76, kind: 'suspend', region: 0, a: 49, b: 6 },
      ],
    },
  },
  {
    name: 'a subscription whose reply is lost is repeated at once, not after the next four seconds of silence',
    plan: {
      seed: 2537,
      settings: {
        consoles: 2,
        gateways: 3,
        keys: 3,
        isWatched: false,
        ttlMs: 30_000,
        staleMs: 0,
        requestEveryMs: 150,
        distancesMs: [0],
        addsRegion: false,
        isQuiet: false,
      },
      calmAtMs: 1_426,
      steps: [
        { atMs: 299, durationMs: 44, kind: 'forget_connections', region: 0, a: 10, b: 10 },
        { atMs: 657, durationMs: 769, kind: 'freeze_console', region: 0, a: 47, b: 18 },
        { atMs: 1_088, durationMs: 338, kind: 'suspend', region: 0, a: 29, b: 41 },
        { atMs: 1_304, durationMs: 122, kind: 'narrow', region: 0, a: 53, b: 44 },
      ],
    },
  },
  {
    name: 'no heartbeat goes out while another console announces what Redis had lost or never had',
    plan: {
      seed: 1003926,
      settings: {
        consoles: 2,
        gateways: 2,
        keys: 1,
        isWatched: false,
        ttlMs: 30000,
        staleMs: 0,
        requestEveryMs: 400,
        distancesMs: [80, 80],
        isQuiet: false,
        addsRegion: true,
      },
      calmAtMs: 27602,
      steps: [
        { atMs: 1446, durationMs: 7763, kind: 'narrow', region: 49, a: 9, b: 14 },
        { atMs: 3621, durationMs: 47, kind: 'revoke', region: 8, a: 7, b: 60 },
        { atMs: 3976, durationMs: 560, kind: 'resume', region: 21, a: 58, b: 8 },
        { atMs: 5582, durationMs: 2002, kind: 'narrow', region: 27, a: 2, b: 6 },
        { atMs: 6209, durationMs: 2462, kind: 'suspend', region: 44, a: 35, b: 8 },
        { atMs: 7149, durationMs: 161, kind: 'add_region', region: 4, a: 44, b: 13 },
        { atMs: 7368, durationMs: 86, kind: 'slow_region', region: 43, a: 24, b: 16 },
      ],
    },
  },
  {
    name: 'a failure of the key service from before the gateway was suspended is no reason to use a stale record',
    plan: {
      seed: 9487,
      settings: {
        consoles: 2,
        gateways: 1,
        keys: 3,
        isWatched: false,
        ttlMs: 30_000,
        staleMs: 300_000,
        requestEveryMs: 150,
        distancesMs: [0],
        addsRegion: false,
        isQuiet: false,
      },
      calmAtMs: 3987,
      steps: [
        { atMs: 536, durationMs: 71, kind: 'shorten', region: 21, a: 37, b: 17 },
        { atMs: 808, durationMs: 485, kind: 'forget_connections', region: 50, a: 58, b: 52 },
        { atMs: 852, durationMs: 90, kind: 'resume', region: 8, a: 46, b: 23 },
        { atMs: 1016, durationMs: 37, kind: 'suspend', region: 25, a: 60, b: 2 },
        { atMs: 1343, durationMs: 2644, kind: 'part_gateway_from_redis', region: 37, a: 18, b: 45 },
        { atMs: 1371, durationMs: 2616, kind: 'revoke', region: 31, a: 55, b: 60 },
        { atMs: 1386, durationMs: 351, kind: 'freeze_console', region: 60, a: 26, b: 62 },
        { atMs: 1455, durationMs: 361, kind: 'lose_answers', region: 13, a: 40, b: 58 },
        { atMs: 1824, durationMs: 1908, kind: 'freeze_gateway', region: 58, a: 29, b: 57 },
      ],
    },
  },
  {
    name: 'a console that stays with a primary that was replaced does not vouch for what the other console announces to the new one',
    plan: {
      seed: 106,
      settings: {
        consoles: 2,
        gateways: 1,
        keys: 1,
        isWatched: true,
        ttlMs: 30000,
        staleMs: 0,
        requestEveryMs: 400,
        distancesMs: [0],
        isQuiet: false,
        addsRegion: false,
      },
      calmAtMs: 9500,
      steps: [
        { kind: 'part_from_sentinels', atMs: 400, durationMs: 8600, region: 0, a: 1, b: 1 },
        { kind: 'fail_over_cut_off', atMs: 500, durationMs: 8500, region: 0, a: 0, b: 0 },
        { kind: 'narrow', atMs: 4533, durationMs: 0, region: 0, a: 0, b: 0 },
      ],
    },
  },
  {
    name: 'a change that only a replaced primary has stays in the outbox, until the console at the new one has announced it',
    plan: {
      seed: 432,
      settings: {
        consoles: 2,
        gateways: 3,
        keys: 1,
        isWatched: true,
        ttlMs: 30000,
        staleMs: 0,
        requestEveryMs: 400,
        distancesMs: [0],
        isQuiet: false,
        addsRegion: false,
      },
      calmAtMs: 7200,
      steps: [
        { kind: 'fail_over_cut_off', atMs: 1456, durationMs: 500, region: 0, a: 0, b: 0 },
        { kind: 'part_from_sentinels', atMs: 1833, durationMs: 5167, region: 0, a: 1, b: 0 },
        { kind: 'revoke', atMs: 2335, durationMs: 0, region: 0, a: 0, b: 0 },
      ],
    },
  },
  {
    name: 'a gateway whose subscription is lost after a long silence is connected again within seconds',
    plan: {
      seed: 5,
      settings: {
        consoles: 1,
        gateways: 1,
        keys: 1,
        isWatched: false,
        ttlMs: 30000,
        staleMs: 0,
        requestEveryMs: 400,
        distancesMs: [0],
        isQuiet: false,
        addsRegion: false,
      },
      calmAtMs: 11045,
      steps: [
        { kind: 'part_console_from_redis', atMs: 545, durationMs: 10300, region: 0, a: 0, b: 1 },
        { kind: 'stall_redis', atMs: 7494, durationMs: 3551, region: 0, a: 0, b: 0 },
      ],
    },
  },
  {
    name: 'changes that are on their way to a far region stop none of its heartbeats',
    plan: {
      seed: 9_015_892,
      settings: {
        consoles: 1,
        gateways: 2,
        keys: 3,
        isWatched: true,
        ttlMs: 30_000,
        staleMs: 0,
        requestEveryMs: 150,
        distancesMs: [80, 250],
        isQuiet: true,
        addsRegion: false,
      },
      calmAtMs: 44_196,
      steps: [
        { kind: 'revoke', atMs: 1860, durationMs: 1061, region: 34, a: 47, b: 16 },
        { kind: 'issue', atMs: 1940, durationMs: 830, region: 56, a: 63, b: 46 },
        { kind: 'shorten', atMs: 3439, durationMs: 40, region: 58, a: 11, b: 26 },
        { kind: 'revoke', atMs: 3674, durationMs: 7464, region: 7, a: 38, b: 63 },
      ],
    },
  },
]
