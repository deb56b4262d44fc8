import type { Violation } from './laws.ts'
import { runSeed } from './run-seed.ts'

export interface Found {
  readonly seed: number
  readonly violation: Violation
}

export interface Summary {
  readonly schedules: number
  readonly virtualMinutes: number
  readonly events: number
  readonly decisions: number
  readonly found: readonly Found[]
}

/** Runs schedules one after another until one of the limits is reached. */
export async function runSeeds(limits: {
  readonly first: number
  readonly count: number
  /** Stops at this many violations. */
  readonly maxFound: number
  readonly mayGoOn?: () => boolean
}): Promise<Summary> {
  const { first, count, maxFound, mayGoOn = () => true } = limits
  const found: Found[] = []
  let [schedules, virtualMs, events, decisions] = [0, 0, 0, 0]
  while (schedules < count && found.length < maxFound && mayGoOn()) {
    const seed = first + schedules
    const outcome = await runSeed(seed)
    schedules++
    virtualMs += outcome.virtualMs
    events += outcome.events
    decisions += outcome.decisions
    if (outcome.violation !== null) found.push({ seed, violation: outcome.violation })
  }
  return { schedules, virtualMinutes: virtualMs / 60_000, events, decisions, found }
}
