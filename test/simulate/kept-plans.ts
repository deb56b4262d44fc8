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
      },
      calmAtMs: 3_787,
      steps: [
        { atMs: 101, durationMs: 3_136, kind: 'freeze_gateway', a: 4, b: 3 },
        { atMs: 638, durationMs: 76, kind: 'suspend', a: 49, b: 6 },
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
      },
      calmAtMs: 1_426,
      steps: [
        { atMs: 299, durationMs: 44, kind: 'forget_connections', a: 10, b: 10 },
        { atMs: 657, durationMs: 769, kind: 'freeze_console', a: 47, b: 18 },
        { atMs: 1_088, durationMs: 338, kind: 'suspend', a: 29, b: 41 },
        { atMs: 1_304, durationMs: 122, kind: 'narrow', a: 53, b: 44 },
      ],
    },
  },
]
