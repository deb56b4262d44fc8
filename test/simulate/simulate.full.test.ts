import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { PLANTED_FAULTS } from './planted/planted-faults.ts'
import { runSeeds } from './run-seeds.ts'

const SEEDS = 20_000
/** The first fault that is found only later than this is too well hidden. */
const MAX_SCHEDULES = 20_000
const PATIENCE_MS = 1_800_000

const run = promisify(execFile)

test(`${SEEDS} schedules of faults break no law`, { timeout: PATIENCE_MS }, async () => {
  const before = process.cpuUsage()
  const { found, schedules, virtualMinutes, decisions } = await runSeeds({
    first: 1_000_000,
    count: SEEDS,
    maxFound: 3,
  })
  const { user, system } = process.cpuUsage(before)
  process.stdout.write(
    `${schedules} schedules, ${Math.round(virtualMinutes)} virtual minutes, ${decisions} decisions, ` +
      `in ${Math.round((user + system) / 1e6)} s of processor time\n`,
  )
  expect(found).toEqual([])
  expect(schedules).toBe(SEEDS)
})

test('each planted fault has a name and a place of its own', () => {
  expect(new Set(PLANTED_FAULTS.map(({ name }) => name)).size).toBe(PLANTED_FAULTS.length)
  for (const { file, from, to } of PLANTED_FAULTS.flatMap(({ mutations }) => mutations)) {
    const text = readFileSync(new URL(`../../src/${file}`, import.meta.url), 'utf8')
    expect(text.split(from), `${file}: ${from}`).toHaveLength(2)
    expect(to).not.toBe(from)
  }
})

test.each(PLANTED_FAULTS)(
  'schedules find this planted fault: $name',
  { timeout: PATIENCE_MS },
  async ({ name }) => {
    const program = new URL('planted/run-planted.ts', import.meta.url).pathname
    const { stdout } = await run(process.execPath, [program, name, String(MAX_SCHEDULES)])
    const { schedules, violation } = JSON.parse(stdout)
    process.stdout.write(`after ${schedules} schedules: ${name}: ${violation?.law}\n`)
    expect(violation).not.toBeNull()
  },
)
