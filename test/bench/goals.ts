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
  { name: 'gateway, 0.4 KB', to: 'http-proxy-3, 0.4 KB', atMost: 0.6 },
  { name: 'gateway, 0.4 KB', to: 'reply-from, 0.4 KB', atMost: 0.8 },
  { name: 'gateway, 0.4 KB', to: 'nginx + Lua, 0.4 KB', atMost: 2.2 },
  { name: 'gateway, 11 KB', to: 'nginx + Lua, 11 KB', atMost: 2.6 },
  { name: 'gateway, cached, 0.4 KB', to: 'nginx + Lua, 0.4 KB', atMost: 1.0 },
  { name: 'gateway, assertion, 0.4 KB', to: 'gateway, 0.4 KB', atMost: 1.02 },
  { name: 'gateway, forged key', to: 'bare Node 401', atMost: 1.45 },
  { name: 'gateway, foreign workspace', to: 'bare Node 401', atMost: 1.4 },
  { name: 'gateway, auth endpoint', to: 'bare Node 401', atMost: 1.4 },
]

export interface GoalResult extends Goal {
  readonly ratios: readonly number[]
  readonly ratio: number
  readonly met: boolean
}

/** Skips goals against contestants that did not run. */
export function evaluateGoals(samples: Samples, goals: readonly Goal[] = GOALS): GoalResult[] {
  return goals.flatMap(goal => {
    const ratios = ratiosOf(samples, goal.name, goal.to)
    if (ratios.length === 0) return []
    const ratio = median(ratios)
    return [{ ...goal, ratios, ratio, met: ratio <= goal.atMost }]
  })
}

/**
 * Order of turns: contestants that are compared run one after the other, because a shared machine changes within a
 * minute.
 */
export function inTurns(contestants: readonly Contestant[]): Contestant[] {
  const compared = GOALS.flatMap(({ name, to }) => [name, to])
  const rankOf = ({ name }: Contestant) => {
    const rank = compared.indexOf(name)
    return rank < 0 ? compared.length : rank
  }
  return contestants.toSorted((one, other) => rankOf(one) - rankOf(other))
}
