import { expect, test } from 'vitest'
import { UseWriter } from '../../../src/console/usage/reports/use-writer.ts'
import { ManualTimers } from '../../support/manual-timers.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { NOW_MS } from '../../support/stored-keys.ts'
import { until } from '../../support/until.ts'

function started() {
  const timers = new ManualTimers()
  const written: Record<string, number>[] = []
  let isFailing = false
  const uses = new UseWriter({
    repository: {
      async recordUse(used) {
        if (isFailing) throw new Error('database or disk is full')
        written.push(Object.fromEntries(used))
      },
    },
    clock: { wallMs: () => NOW_MS + timers.nowMs, monotonicMs: () => timers.nowMs },
    timers,
    logger: silentLogger,
  })
  const use = (keyId: string, ms = NOW_MS + timers.nowMs) => uses.record(new Map([[keyId, ms]]))
  const fails = (failing: boolean) => {
    isFailing = failing
  }
  return { uses, use, timers, written, fails }
}

test('the first use of a key is written at once; in constant use it is written every five seconds, and the last use too', async () => {
  const { use, timers, written } = started()
  await use('a')
  for (let second = 1; second <= 4; second++) {
    timers.advance(1000)
    await use('a')
  }
  expect(written).toEqual([{ a: NOW_MS }])
  timers.advance(2000)
  await until('the last use is written', async () => written.length === 2)
  expect(written[1]).toEqual({ a: NOW_MS + 4000 })
  timers.advance(20_000)
  await use('a')
  expect(written[2]).toEqual({ a: NOW_MS + 26_000 })
})

test('an earlier use that arrives late does not replace a later one that waits', async () => {
  const { uses, use, timers, written } = started()
  await use('a')
  timers.advance(3000)
  await use('a')
  await use('a', NOW_MS + 1000)
  await uses.stop()
  expect(written).toEqual([{ a: NOW_MS }, { a: NOW_MS + 3000 }])
  expect(timers.nextDelayMs).toBeNull()
})

test('what the database did not take is reported to the gateway, or waits for the next time', async () => {
  const { use, timers, written, fails } = started()
  await use('a')
  timers.advance(1000)
  await use('a')
  fails(true)
  await expect(use('b')).rejects.toThrow('full')
  timers.advance(10_000)
  fails(false)
  await use('b')
  await until('the use that waited is written', async () => {
    timers.advance(10_000)
    return written.length === 3
  })
  expect(written.slice(1)).toContainEqual({ a: NOW_MS + 1000 })
})
