// Mutation testing: plants faults in a part of the sources, and lists those that no test finds.
import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { plantFaults, WORK } from './instrument.ts'
import { ROOT } from './plan.ts'
import { report } from './report.ts'
import { isInside, sampleRanges } from './sample.ts'
import { tryMutants } from './try-mutants.ts'

const PARTS = ['domain', 'keys', 'gateway', 'upstream'] as const
const USAGE = 64

const { values: options } = parseArgs({
  options: {
    /** One or several of the parts; all by default. */
    part: { type: 'string', multiple: true, default: [...PARTS] },
    /** Mutates about this many lines of each part instead of all. */
    lines: { type: 'string' },
    /** Chooses the lines. */
    seed: { type: 'string', default: '1' },
    /** Mutates only files whose path contains this. */
    file: { type: 'string', default: '' },
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

/** @returns whether every survivor is known */
async function run(part: string): Promise<boolean> {
  const name = [part, ...options.file.split('/')].filter(text => text !== '').join('-')
  const { mutants, sources } = await plantFaults(part, name)
  const files = Object.keys(sources).filter(path => path.includes(options.file))
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
  process.stdout.write(`\n${part}: ${chosen.length} of ${mutants.length} mutants\n`)
  const verdicts = await tryMutants({ part, name }, sources, chosen, Number(options.concurrency))
  const { text, isComplete } = report(part, chosen, verdicts, ranges === null && options.file === '')
  process.stdout.write(text)
  const results = chosen.map(mutant => ({ ...mutant, ...verdicts.get(mutant.id) }))
  writeFileSync(`${WORK}${name}.json`, JSON.stringify(results, null, 1))
  return isComplete
}
