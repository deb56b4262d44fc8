import { availableParallelism } from 'node:os'
import { expect, test } from 'vitest'
import { PLANTED_FAULTS } from '../../simulate/planted/planted-faults.ts'
import { runProgram } from '../../simulate/run-program.ts'

const SEEDS = 20_000
/** A fault that is found only later than this counts as not found. */
const MAX_SCHEDULES = 20_000
const PATIENCE_MS = 3_600_000

test(`${SEEDS} schedules of faults break no law`, { timeout: PATIENCE_MS }, async () => {
  const stdout = await runProgram('run.ts', ['--seed', '1000000', '--seeds', String(SEEDS)])
  process.stdout.write(stdout)
  expect(stdout).toMatch(new RegExp(`^${SEEDS} schedules.*\n$`))
})

test('schedules find every planted fault', { timeout: PATIENCE_MS }, async () => {
  const names = PLANTED_FAULTS.map(({ name }) => name)
  const missed: string[] = []
  const searchNext = async (): Promise<void> => {
    for (let name = names.shift(); name !== undefined; name = names.shift()) {
      if (!(await isFound(name))) missed.push(name)
    }
  }
  // A process for each fault, as many at once as there are cores.
  await Promise.all(Array.from({ length: availableParallelism() }, searchNext))
  expect(missed).toEqual([])
})

async function isFound(name: string): Promise<boolean> {
  const stdout = await runProgram('planted/run-planted.ts', [name, String(MAX_SCHEDULES)])
  const { schedules, seconds, violation } = JSON.parse(stdout)
  process.stdout.write(`${schedules} schedules, ${seconds} s: ${name}: ${violation?.law ?? 'not found'}\n`)
  return violation !== null
}
