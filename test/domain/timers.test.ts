import { expect, test } from 'vitest'
import { systemTimers } from '../../src/domain/clock.ts'

test('a timer runs once, another one until it is cancelled, and neither after that', async () => {
  const ran: string[] = []
  const cancelled = [
    systemTimers.after(1, () => ran.push('cancelled')),
    systemTimers.every(1, () => ran.push('cancelled')),
  ]
  for (const cancel of cancelled) cancel()
  const { promise, resolve } = Promise.withResolvers<void>()
  systemTimers.after(1, () => ran.push('once'))
  let rounds = 0
  const stop = systemTimers.every(2, () => {
    rounds++
    if (rounds === 3) {
      stop()
      systemTimers.nextTurn(resolve)
    }
  })
  await promise
  expect(ran).toEqual(['once'])
  expect(rounds).toBe(3)
})
