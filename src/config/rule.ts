import type { Config } from './schema.ts'
import type { Mistake } from './sources.ts'

/** What runs in a process: it decides which settings are required. */
export type Plane = 'gateway' | 'console'

/** A rule between settings. */
export interface Rule {
  /** The settings and sections that it reads: it is judged only where each of them is right by itself. */
  readonly about: readonly string[]
  /** Judged only where this plane runs; without one, always. */
  readonly plane?: Plane
  readonly check: (config: Config, planes: readonly Plane[]) => Mistake[]
}

/** @returns what a rule finds: nothing, or this one mistake */
export function mistakeIf(isWrong: boolean, spelling: string, problem: string): Mistake[] {
  return isWrong ? [{ spelling, problem }] : []
}
