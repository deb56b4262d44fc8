import type { Contestant } from './contestants.ts'
import { ratiosOf, type Samples } from './measure.ts'
import { median } from './statistics.ts'

/** Limit for a contestant's processor time per request, as a ratio to another contestant in the same round. */
export interface Goal {
  readonly name: string
  readonly to: string
  readonly atMost: number
}

export const GOALS: readonly Goal[] = [
  { name: 'gateway, 0.4 KB', to: 'http-proxy-3, 0.4 KB', atMost: 0.58 },
  { name: 'gateway, 0.4 KB', to: 'reply-from, 0.4 KB', atMost: 0.82 },
  { name: 'gateway, 0.4 KB', to: 'nginx + Lua, 0.4 KB', atMost: 2.0 },
  { name: 'gateway, 11 KB', to: 'nginx + Lua, 11 KB', atMost: 2.6 },
  { name: 'gateway, cached, 0.4 KB', to: 'nginx + Lua, 0.4 KB', atMost: 1.0 },
  { name: 'gateway, assertion, 0.4 KB', to: 'gateway, 0.4 KB', atMost: 1.02 },
  { name: 'gateway, forged key', to: 'bare Node 401', atMost: 1.45 },
  { name: 'gateway, foreign workspace', to: 'bare Node 401', atMost: 1.4 },
  { name: 'gateway, auth endpoint', to: 'bare Node 401', atMost: 1.35 },
]

/** Added to the upstream's own latency at half of the gateway's maximum rate. */
export const P99_ADDED_MS = 2
/** From the start of `node`, which npm delays by another 150 to 210 ms. */
export const START_GOAL = { readyAfterMs: 350, idleMegabytes: 115 }

export type Mark = 'met' | 'missed'

export function markOf(measured: number, atMost: number): Mark {
  return measured <= atMost ? 'met' : 'missed'
}

export interface GoalResult extends Goal {
  readonly ratio: number
  readonly mark: Mark
}

/** Skips goals against contestants that did not run. */
export function evaluateGoals(samples: Samples, goals: readonly Goal[] = GOALS): GoalResult[] {
  return goals.flatMap(goal => {
    const ratios = ratiosOf(samples, goal.name, goal.to)
    if (ratios.length === 0) return []
    // As tables show it: a figure is not missed beside a goal that looks the same.
    const ratio = Number(median(ratios).toFixed(2))
    return [{ ...goal, ratio, mark: markOf(ratio, goal.atMost) }]
  })
}

/**
 * Order of turns: contestants that are compared run one after the other, because a shared machine changes within a
 * minute; another version right after this one.
 */
export function inTurns(contestants: readonly Contestant[]): Contestant[] {
  const compared = GOALS.flatMap(({ name, to }) => [name, to])
  const rankOf = ({ name }: Contestant) => {
    const rank = compared.indexOf(name.replace(/^other,/, 'gateway,'))
    return rank < 0 ? compared.length : rank
  }
  return contestants.toSorted((one, other) => rankOf(one) - rankOf(other))
}
