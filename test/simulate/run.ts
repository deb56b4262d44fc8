import { parseArgs } from 'node:util'
import { planOf } from './plan.ts'
import { runSeeds } from './run-seeds.ts'
import { shrink } from './shrink.ts'

const USAGE = 'npm run simulate -- [--seeds <count>] [--seed <first>] [--minutes <minutes>]\n'
const DEFAULT_SEEDS = 20_000
const MAX_FOUND = 5

interface Options {
  readonly first: number
  readonly count: number
  readonly endMs: number
}

/** @returns a sentence that says what is wrong, if something is */
function readOptions(): Options | string {
  let values: { seeds?: string; seed?: string; minutes?: string }
  try {
    const options = {
      seeds: { type: 'string' },
      seed: { type: 'string' },
      minutes: { type: 'string' },
    } as const
    values = parseArgs({ options }).values
  } catch (error) {
    return String(error instanceof Error ? error.message : error)
  }
  const first = Number(values.seed ?? 1)
  const minutes = Number(values.minutes ?? Number.POSITIVE_INFINITY)
  // One seed alone is one to look at; with minutes, as many as fit.
  const many = values.minutes === undefined ? DEFAULT_SEEDS : Number.MAX_SAFE_INTEGER
  const count = Number(values.seeds ?? (values.seed !== undefined && values.minutes === undefined ? 1 : many))
  if (![first, count].every(Number.isSafeInteger)) return '--seeds and --seed are whole numbers'
  if (Number.isNaN(minutes)) return '--minutes is a number'
  return { first, count, endMs: performance.now() + minutes * 60_000 }
}

async function main(): Promise<void> {
  const options = readOptions()
  if (typeof options === 'string') {
    process.stderr.write(`${options}\n${USAGE}`)
    process.exitCode = 2
    return
  }
  const { first, count, endMs } = options
  const before = process.cpuUsage()
  const mayGoOn = (): boolean => performance.now() < endMs
  const summary = await runSeeds({ first, count, maxFound: MAX_FOUND, mayGoOn })
  const { user, system } = process.cpuUsage(before)
  const seconds = (user + system) / 1e6
  const { schedules, virtualMinutes, events, decisions } = summary
  process.stdout.write(
    `${schedules} schedules from seed ${first}, ${virtualMinutes.toFixed(0)} virtual minutes, ${events} events, ` +
      `${decisions} decisions, in ${seconds.toFixed(1)} s of processor time: ` +
      `${(schedules / seconds).toFixed(0)} schedules and ${(virtualMinutes / seconds).toFixed(0)} virtual minutes a second\n`,
  )
  for (const { seed, violation } of summary.found) {
    process.stdout.write(
      `seed ${seed}: ${violation.law}: ${violation.detail} at ${violation.atMs.toFixed(0)} ms\n`,
    )
  }
  const [worst] = summary.found
  if (worst === undefined) return
  process.exitCode = 1
  const plan = await shrink(planOf(worst.seed), worst.violation.law)
  process.stdout.write(
    `the smallest plan that breaks the law of seed ${worst.seed}:\n${JSON.stringify(plan, null, 1)}\n`,
  )
}

await main()
