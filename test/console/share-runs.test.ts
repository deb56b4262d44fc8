import { expect, test } from 'vitest'
import { shareBatches } from '../../src/console/platform/jobs/share-runs.ts'

test('calls that arrive together share a run, and more than one run may have share the next ones, one at a time', async () => {
  const runs: number[][] = []
  let running = 0
  const share = shareBatches(async (items: readonly number[]) => {
    expect(++running).toBe(1)
    await Promise.resolve()
    running--
    runs.push([...items])
    return runs.length
  }, 3)
  expect(await Promise.all([1, 2, 3, 4, 5].map(item => share([item])))).toEqual([1, 1, 1, 2, 2])
  expect(await share([6, 7, 8, 9])).toBe(3)
  expect(runs).toEqual([
    [1, 2, 3],
    [4, 5],
    [6, 7, 8, 9],
  ])
})

test('a run that fails fails for its own callers alone', async () => {
  const share = shareBatches(async (items: readonly number[]) => {
    if (items.includes(1)) throw new Error('broken')
  }, 1)
  const results = await Promise.allSettled([share([1]), share([2])])
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'fulfilled'])
})
