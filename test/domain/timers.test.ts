import { afterEach, expect, test, vi } from 'vitest'
import { systemTimers, withinDeadline } from '../../src/domain/clock.ts'

afterEach(() => vi.useRealTimers())

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

test('a wait with a deadline ends with what it waits for, or with what is due then', async () => {
  vi.useFakeTimers()
  const never = new Promise<string>(() => {})
  const late = () => {
    throw new Error('late')
  }
  expect(await withinDeadline(Promise.resolve('in time'), 1000, late)).toBe('in time')
  await expect(withinDeadline(Promise.reject(new Error('failed')), 1000, late)).rejects.toThrow('failed')
  // No timer is left behind.
  expect(vi.getTimerCount()).toBe(0)
  const waits = [withinDeadline(never, 1000, () => 'late'), withinDeadline(never, 1000, late)]
  vi.advanceTimersByTime(1000)
  await expect(waits[0]).resolves.toBe('late')
  await expect(waits[1]).rejects.toThrow('late')
  expect(vi.getTimerCount()).toBe(0)
})
