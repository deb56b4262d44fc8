import { appendFileSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export const ROOT = fileURLToPath(new URL('../../', import.meta.url))

/** What one process of tests does: it reads this from the file that `MUTATION_PLAN` names. */
export interface Plan {
  readonly part: string
  /** Path of a source file to the path of its text with planted faults. */
  readonly sources: Readonly<Record<string, string>>
  /** Path of its source file for each mutant. */
  readonly mutants: Readonly<Record<string, string>>
  /** Folder of a test file for each mutant, which is active from before the sources are loaded; null: while a test runs. */
  readonly alone: string | null
  /** Whether tests of the full suite are left out. */
  readonly isFast: boolean
  /** Whether test files are only loaded, so that each mutant whose code that runs is known, and no test runs. */
  readonly isLoadOnly: boolean
  /** Where events are appended, one a line. */
  readonly events: string
}

export type Event =
  /** A mutant becomes active for a test. */
  | { readonly kind: 'try'; readonly test: string; readonly id: string }
  | {
      readonly kind: 'killed'
      readonly test: string
      readonly id: string
      readonly how: 'failed' | 'deadline' | 'endless'
      readonly message: string
    }
  /** The test failed with the mutant, then without one. What the mutant did may have outlived it, so the process ends. */
  | { readonly kind: 'doubtful'; readonly test: string; readonly id: string }
  /** The test failed without a mutant. In a process that tried some before, one of them may have outlived its test, so it ends. */
  | { readonly kind: 'unstable'; readonly test: string; readonly message: string }
  /** Code of these mutants ran during the test. */
  | { readonly kind: 'covered'; readonly test: string; readonly ids: readonly string[] }
  /** The file ends. Code of these mutants ran while it was loaded, or in its hooks. It took so long without them. */
  | { readonly kind: 'outside'; readonly file: string; readonly ids: readonly string[]; readonly ms: number }

/** How the path of the test of a source file begins. */
export function testNameOf(source: string): string {
  return source.replace(/^src/, 'test').replace(/\.ts$/, '.')
}

/** Whether a test file is about the subject of a source file: a folder or a name of both has the same word. */
export function isAbout(test: string, source: string): boolean {
  const wordsOf = (path: string) =>
    path
      .replace(/\.test\.ts$|\.ts$/, '')
      .split('/')
      .slice(2)
      .flatMap(name => name.split('-').map(word => word.replace(/s$/, '')))
  const words = wordsOf(source)
  return wordsOf(test).some(word => words.includes(word))
}

export function readPlan(): Plan {
  const path = process.env['MUTATION_PLAN']
  if (path === undefined) throw new Error('MUTATION_PLAN is not set: start this with npm run mutate')
  return JSON.parse(readFileSync(path, 'utf8')) as Plan
}

export function record(path: string, event: Event): void {
  appendFileSync(path, `${JSON.stringify(event)}\n`)
}

export function readEvents(path: string): Event[] {
  const lines = readFileSync(path, 'utf8').split('\n')
  return lines.filter(line => line !== '').map(line => JSON.parse(line) as Event)
}
