import type { Law } from './laws.ts'
import type { Plan, Settings } from './plan.ts'
import { runPlan } from './run-seed.ts'

/** Smaller worlds, tried one after another. */
const SMALLER: readonly Partial<Settings>[] = [
  { gateways: 1 },
  { distancesMs: [0], addsRegion: false, isQuiet: false },
  { addsRegion: false },
  { consoles: 1 },
  { keys: 1 },
  { isWatched: false },
  { staleMs: 0 },
  { floors: 32 },
  { isRealDatabase: false },
  { requestEveryMs: 400 },
]

/** Removes steps and parts as long as the same law is still broken. */
export async function shrink(plan: Plan, law: Law): Promise<Plan> {
  const breaks = async (smaller: Plan) => (await runPlan(smaller)).violation?.law === law
  let smallest = plan
  for (let before: Plan | null = null; before !== smallest; ) {
    before = smallest
    for (const step of before.steps) {
      const without = { ...smallest, steps: smallest.steps.filter(other => other !== step) }
      if (await breaks(without)) smallest = without
    }
    for (const settings of SMALLER) {
      const smaller = { ...smallest, settings: { ...smallest.settings, ...settings } }
      const isOther = JSON.stringify(smaller) !== JSON.stringify(smallest)
      if (isOther && (await breaks(smaller))) smallest = smaller
    }
  }
  return smallest
}
