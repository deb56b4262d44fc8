import { expect, onTestFinished, test, vi } from 'vitest'
import { measureChanges } from './changes.ts'
import { measureColdStart } from './cold-start.ts'
import { measureFleet } from './fleet.ts'

/** Each takes about ten seconds of an idle machine. */

/** Small runs of each part: what they print are no figures, but the guarantees hold at any size. */
function silenced(): void {
  const written = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
  onTestFinished(() => written.mockRestore())
}

test('fifty gateways in two regions confirm each of twenty revocations', async () => {
  silenced()
  const { confirmedAfterMs, known } = await measureFleet({
    ...{ gateways: 50, regions: 2, keys: 2_000 },
    ...{ idleSeconds: 0, singly: 5, bursts: [15], waiting: 2 },
    statisticsLagMs: 0,
  })
  expect(confirmedAfterMs).toHaveLength(20)
  expect(Math.min(...confirmedAfterMs)).toBeGreaterThanOrEqual(0)
  expect(known).toEqual([50, 50])
})

test('after Redis lost its records, ten gateways read a key from the database less often than each once', async () => {
  silenced()
  const [cold, warm] = await measureColdStart({
    ...{ gateways: 10, regions: 2, hotKeys: 500, each: 500, same: 500 },
    statisticsLagMs: 0,
  })
  expect(cold?.rowsPerKey).toBeLessThan(8)
  // Records that were looked up are in Redis for the gateways that start later.
  expect(warm?.rowsPerKey).toBeLessThan(0.5)
})

test('changes at a fixed rate are answered and leave the outboxes', async () => {
  silenced()
  const rate = await measureChanges({
    ...{ gateways: 4, regions: 2, keys: 2_000, rates: [5], stepSeconds: 2, longSeconds: 0 },
    statisticsLagMs: 0,
  })
  expect(rate).toBe(5)
})
