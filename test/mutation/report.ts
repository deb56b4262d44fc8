import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import type { Mutant } from './instrument.ts'
import { ROOT } from './plan.ts'
import type { Verdict } from './try-mutants.ts'

/** Path of a source file, reason why no test finds them, text of a line: faults. */
type Survivors = Readonly<
  Record<string, Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>>
>

interface Survivor extends Pick<Mutant, 'path' | 'text' | 'fault'> {
  readonly reason: string
}

/** Reasons that begin with this are of mutants that behave as the original. */
const EQUIVALENT = 'same: '

/** What was tried of a part. */
export type Extent = 'all' | 'files' | 'sample'

/** Parts of which a whole run found every survivor that is listed. The list of `console` is that of samples. */
const EXAMINED: ReadonlySet<string> = new Set(['domain', 'keys', 'gateway', 'upstream', 'http'])

/** Of the mutants that change behaviour, this many must be found. */
const GOAL = 0.9

/**
 * Compares the result with the known survivors. Of a whole part, known survivors that are missing no longer exist. A sample
 * may hit many known ones, so only the others count: those that survive since a change of sources or tests. Of a part that was
 * never examined as a whole, a sample only informs.
 * @param known reason for each name
 */
export function report(
  part: string,
  mutants: readonly Mutant[],
  verdicts: ReadonlyMap<string, Verdict>,
  extent: Extent,
  known: ReadonlyMap<string, string> = readSurvivors(),
): { text: string; isComplete: boolean } {
  const reasonOf = (mutant: Mutant) => known.get(nameOf(mutant))
  const statusOf = ({ id }: Mutant) => verdicts.get(id)?.status ?? 'not covered'
  const survivors = mutants.filter(mutant => ['survived', 'not covered'].includes(statusOf(mutant)))
  const unexplained = survivors.filter(mutant => reasonOf(mutant) === undefined)
  const equivalent = survivors.filter(mutant => reasonOf(mutant)?.startsWith(EQUIVALENT))
  const late = mutants.filter(mutant => statusOf(mutant) === 'deadline').length
  const killed = mutants.length - survivors.length
  const changing = mutants.length - equivalent.length
  // Mutants of equal lines share a name: an entry is needed while one of them survives.
  const surviving = new Set(survivors.map(nameOf))
  const found = new Set(mutants.map(nameOf).filter(name => known.has(name) && !surviving.has(name)))
  const lines = [
    ...unexplained.map(mutant => `${mutant.path}:${mutant.line} ${statusOf(mutant)}: ${mutant.fault}`),
    ...[...found].map(name => `found by a test now, take it off the list: ${name}`),
    ...(extent === 'all' ? gone(part, known, mutants) : []),
    `${part}: ${killed} of ${changing} mutants that change behaviour were found (${((100 * killed) / changing).toFixed(1)} %),`,
    `${late} of them by a deadline; ${equivalent.length} more change nothing, ${unexplained.length} are not on the list`,
  ]
  const isComplete =
    extent === 'sample'
      ? !EXAMINED.has(part) || changing - unexplained.length >= GOAL * changing
      : unexplained.length === 0 && killed >= GOAL * changing
  return { text: `${lines.join('\n')}\n`, isComplete }
}

function gone(part: string, known: ReadonlyMap<string, string>, mutants: readonly Mutant[]): string[] {
  const exists = new Set(mutants.map(nameOf))
  return [...known.keys()]
    .filter(name => name.startsWith(`src/${part}/`) && !exists.has(name))
    .map(name => `no longer exists, take it off the list: ${name}`)
}

/** It stays the same while lines move. */
function nameOf({ path, text, fault }: Pick<Mutant, 'path' | 'text' | 'fault'>): string {
  return `${path}: ${text}: ${fault}`
}

function readSurvivors(): Map<string, string> {
  return new Map(listSurvivors().map(survivor => [nameOf(survivor), survivor.reason]))
}

/** @returns all that the list of known survivors holds */
export function listSurvivors(): Survivor[] {
  // Our own file: a test compares each of its entries with the sources.
  const survivors = parse(readFileSync(`${ROOT}test/mutation/survivors.yaml`, 'utf8')) as Survivors
  return Object.entries(survivors).flatMap(([path, groups]) =>
    Object.entries(groups).flatMap(([reason, lines]) =>
      Object.entries(lines).flatMap(([text, faults]) => faults.map(fault => ({ path, reason, text, fault }))),
    ),
  )
}
