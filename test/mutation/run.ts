// Mutation testing: plants faults in a part of the sources, and lists those that no test finds.
import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { type Mutant, plantFaults, WORK } from './instrument.ts'
import { ROOT } from './plan.ts'
import { report } from './report.ts'
import { isInside, sampleRanges } from './sample.ts'
import { tryMutants, type Verdict } from './try-mutants.ts'

const PARTS = ['domain', 'keys', 'limits', 'gateway', 'upstream', 'http', 'console'] as const
const USAGE = 64

const { values: options } = parseArgs({
  options: {
    /** One or several of the parts; all by default. */
    part: { type: 'string', multiple: true, default: [...PARTS] },
    /** Mutates about this many lines of each part instead of all. */
    lines: { type: 'string' },
    /** Chooses the lines. */
    seed: { type: 'string', default: '1' },
    /** Mutates only files whose path contains this, or one of several. */
    file: { type: 'string', multiple: true, default: [] },
    /** Tries only those that survived the last run over the same mutants, such as after tests were added. */
    again: { type: 'boolean', default: false },
    /** Goes on with the last run over the same mutants, which was interrupted, with as many processes. */
    resume: { type: 'boolean', default: false },
    /** Leaves out the tests of the full suite: the share that is found is then a lower bound. */
    fast: { type: 'boolean', default: false },
    /** Tries only those whose code runs while the sources are loaded, with the tests that are named for that. */
    loaded: { type: 'boolean', default: false },
    /** Processes at once. */
    concurrency: { type: 'string', default: '2' },
  },
})

const unknown = options.part.filter(part => !PARTS.some(name => name === part))
if (unknown.length > 0) {
  process.stderr.write(`There is no part ${unknown.join(', ')}: choose of ${PARTS.join(', ')}\n`)
  process.exitCode = USAGE
} else {
  for (const part of options.part) if (!(await run(part))) process.exitCode = 1
}

/** @returns whether enough mutants were killed, and every survivor is known unless this was a sample */
async function run(part: string): Promise<boolean> {
  const name = [part, ...options.file.flatMap(text => text.split('/'))].filter(text => text !== '').join('-')
  const { mutants, sources } = await plantFaults(part, name)
  const isChosen = (path: string) =>
    options.file.length === 0 || options.file.some(text => path.includes(text))
  const files = Object.keys(sources).filter(isChosen)
  const ranges =
    options.lines === undefined
      ? null
      : sampleRanges(
          files.map(path => ({ path, lines: readFileSync(`${ROOT}${path}`, 'utf8').split('\n').length })),
          Number(options.lines),
          Number(options.seed),
        )
  const chosen = mutants.filter(
    ({ path, line }) => files.includes(path) && (ranges === null || isInside(ranges, path, line)),
  )
  const before = options.again ? killedBefore(name, chosen) : new Map<string, Verdict>()
  const tried = chosen.filter(({ id }) => !before.has(id))
  process.stdout.write(`\n${part}: ${tried.length} of ${mutants.length} mutants\n`)
  // Without faults in the other files, a sample runs faster.
  const mutated = new Set(tried.map(({ path }) => path))
  const planted = Object.fromEntries(Object.entries(sources).filter(([path]) => mutated.has(path)))
  const found = await tryMutants({ part, name, planted: mutants }, planted, tried, {
    processes: Number(options.concurrency),
    resume: options.resume,
    fast: options.fast,
    loaded: options.loaded,
  })
  const verdicts = new Map([...before, ...found])
  const reported = options.loaded ? chosen.filter(({ id }) => verdicts.has(id)) : chosen
  const isSample = ranges !== null || options.loaded
  const extent = isSample ? 'sample' : options.file.length > 0 ? 'files' : 'all'
  const { text, isComplete } = report(part, reported, verdicts, extent)
  process.stdout.write(text)
  const results = reported.map(mutant => ({ ...mutant, ...verdicts.get(mutant.id) }))
  writeFileSync(`${WORK}${name}.json`, JSON.stringify(results, null, 1))
  return isComplete
}

/** @returns those that the last run killed, if it was of the same mutants */
function killedBefore(name: string, mutants: readonly Mutant[]): Map<string, Verdict> {
  // The file is one that this command wrote.
  const results = JSON.parse(readFileSync(`${WORK}${name}.json`, 'utf8')) as (Mutant & Verdict)[]
  const placeOf = ({ id, path, line, fault }: Mutant) => [id, path, line, fault].join()
  const places = new Set(mutants.map(placeOf))
  const killed = results.filter(({ status }) => status === 'killed' || status === 'deadline')
  if (!results.every(result => places.has(placeOf(result)))) throw new Error('The sources have changed since')
  return new Map(killed.map(({ id, status, test }) => [id, { status, test }]))
}
