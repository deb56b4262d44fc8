import { expect, test } from 'vitest'
import { runProgram } from './run-program.ts'

/** `npm run qualify` tries twenty times as many, and finds each planted fault again. */
const SEEDS = 1_000
const PATIENCE_MS = 1_800_000

test(`${SEEDS} schedules of faults break no law`, { timeout: PATIENCE_MS }, async () => {
  const stdout = await runProgram('run.ts', ['--seed', '1000000', '--seeds', String(SEEDS)])
  process.stdout.write(stdout)
  expect(stdout).toMatch(new RegExp(`^${SEEDS} schedules.*\n$`))
})
