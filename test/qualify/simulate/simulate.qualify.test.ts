import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { PLANTED_FAULTS } from '../../simulate/planted/planted-faults.ts'

const SEEDS = 20_000
/** The first fault that is found only later than this is too well hidden. */
const MAX_SCHEDULES = 20_000
const PATIENCE_MS = 1_800_000
/** Most objects of a schedule live as long as it: a larger young generation takes a fifth of the time away. */
const MEMORY = ['--min-semi-space-size=16', '--max-semi-space-size=32']

const run = promisify(execFile)

/** In a process of its own, with the memory that `npm run simulate` has. @returns what it prints, also if it finds a violation */
async function runProgram(file: string, args: readonly string[]): Promise<string> {
  const program = new URL(`../../simulate/${file}`, import.meta.url).pathname
  const { stdout } = await run(process.execPath, [...MEMORY, program, ...args]).catch(printed)
  return stdout
}

function printed(error: unknown): { stdout: string } {
  if (error instanceof Error && 'stdout' in error && error.stdout) return { stdout: String(error.stdout) }
  throw error
}

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
