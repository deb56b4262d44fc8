import { expect, test } from 'vitest'
import { PLANTED_FAULTS } from '../../simulate/planted/planted-faults.ts'
import { runProgram } from '../../simulate/run-program.ts'

const SEEDS = 20_000
/** The first fault that is found only later than this is too well hidden. */
const MAX_SCHEDULES = 20_000
const PATIENCE_MS = 1_800_000

test(`${SEEDS} schedules of faults break no law`, { timeout: PATIENCE_MS }, async () => {
  const stdout = await runProgram('run.ts', ['--seed', '1000000', '--seeds', String(SEEDS)])
  process.stdout.write(stdout)
  expect(stdout).toMatch(new RegExp(`^${SEEDS} schedules.*\n$`))
})

test.each(PLANTED_FAULTS)(
  'schedules find this planted fault: $name',
  { timeout: PATIENCE_MS },
  async ({ name }) => {
    const stdout = await runProgram('planted/run-planted.ts', [name, String(MAX_SCHEDULES)])
    const { schedules, violation } = JSON.parse(stdout)
    process.stdout.write(`after ${schedules} schedules: ${name}: ${violation?.law}\n`)
    expect(violation).not.toBeNull()
  },
)
