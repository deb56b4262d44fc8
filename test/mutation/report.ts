import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import type { Mutant } from './instrument.ts'
import { ROOT } from './plan.ts'
import type { Verdict } from './try-mutants.ts'

/** Path of a source file, text of a line, fault: why no test finds it. */
type Survivors = Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, string>>>>>>

/** Reasons that begin with this are of mutants that behave as the original. */
const EQUIVALENT = 'same: '

/**
 * Compares the result with the known survivors.
 * @param isWhole whether all mutants of the part were tried, so that known survivors that are missing no longer exist
 */
export function report(
  part: string,
  mutants: readonly Mutant[],
  verdicts: ReadonlyMap<string, Verdict>,
  isWhole: boolean,
): { text: string; isComplete: boolean } {
  const known = (parse(readFileSync(`${ROOT}test/mutation/survivors.yaml`, 'utf8')) ?? {}) as Survivors
  const reasonOf = ({ path, text, fault }: Mutant) => known[path]?.[text]?.[fault]
  const statusOf = ({ id }: Mutant) => verdicts.get(id)?.status ?? 'not covered'
  const survivors = mutants.filter(mutant => ['survived', 'not covered'].includes(statusOf(mutant)))
  const unexplained = survivors.filter(mutant => reasonOf(mutant) === undefined)
  const equivalent = survivors.filter(mutant => reasonOf(mutant)?.startsWith(EQUIVALENT))
  const late = mutants.filter(mutant => statusOf(mutant) === 'deadline').length
  const killed = mutants.length - survivors.length
  const changing = mutants.length - equivalent.length
  const found = mutants.filter(mutant => reasonOf(mutant) !== undefined && !survivors.includes(mutant))
  const lines = [
    ...unexplained.map(mutant => `${mutant.path}:${mutant.line} ${statusOf(mutant)}: ${mutant.fault}`),
    ...found.map(
      ({ path, text, fault }) => `found by a test now, take it off the list: ${path} ${text} ${fault}`,
    ),
    ...(isWhole ? gone(part, known, mutants) : []),
    `${part}: ${killed} of ${changing} mutants that change behaviour were found (${((100 * killed) / changing).toFixed(1)} %),`,
    `${late} of them by a deadline; ${equivalent.length} more change nothing, ${unexplained.length} are not on the list`,
  ]
  return { text: `${lines.join('\n')}\n`, isComplete: unexplained.length === 0 && killed >= 0.9 * changing }
}

function gone(part: string, known: Survivors, mutants: readonly Mutant[]): string[] {
  const exists = new Set(mutants.map(({ path, text, fault }) => `${path} ${text} ${fault}`))
  return Object.entries(known)
    .filter(([path]) => path.startsWith(`src/${part}/`))
    .flatMap(([path, lines]) =>
      Object.entries(lines).flatMap(([text, faults]) =>
        Object.keys(faults).map(fault => `${path} ${text} ${fault}`),
      ),
    )
    .filter(entry => !exists.has(entry))
    .map(entry => `no longer exists, take it off the list: ${entry}`)
}
