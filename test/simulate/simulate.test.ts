import { describe, expect, test } from 'vitest'
import { KEPT_PLANS } from './kept-plans.ts'
import { runPlan, runSeed } from './run-seed.ts'
import { runSeeds } from './run-seeds.ts'

const SEEDS = 150

test('no schedule of faults breaks a law of the revocation guarantee', async () => {
  const { found, schedules, decisions } = await runSeeds({ first: 1, count: SEEDS, maxFound: 3 })
  expect(found).toEqual([])
  expect(schedules).toBe(SEEDS)
  // Gateways that decided nothing would break no law either.
  expect(decisions).toBeGreaterThan(SEEDS * 50)
})

test('the same seed is the same schedule, to the last event', async () => {
  expect(await runSeed(7)).toEqual(await runSeed(7))
  expect(await runSeed(7)).not.toEqual(await runSeed(8))
})

describe('schedules that once broke a law', () => {
  test.each(KEPT_PLANS)('$name', async ({ plan }) => {
    expect((await runPlan(plan)).violation).toBeNull()
  })
})
