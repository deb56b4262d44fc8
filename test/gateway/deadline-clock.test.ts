import { expect, test, vi } from 'vitest'
import { DeadlineClock } from '../../src/gateway/deadline-clock.ts'

test('everything under way hears the time, and what left does not', () => {
  let nowMs = 7
  const clock = new DeadlineClock(() => nowMs)
  const heard: number[] = []
  const stays = { checkDeadline: (at: number) => void heard.push(at) }
  const leaves = { checkDeadline: () => clock.delete(leaves) }
  clock.add(leaves)
  clock.add(stays)
  clock.tick()
  nowMs = 9
  clock.tick()
  expect(heard).toEqual([7, 9])
  clock.stop()
})

test('it runs only while something is under way, on one timer for all', () => {
  vi.useFakeTimers()
  const clock = new DeadlineClock(() => 0)
  const some = [{ checkDeadline() {} }, { checkDeadline() {} }]
  for (const one of some) clock.add(one)
  expect(vi.getTimerCount()).toBe(1)
  for (const one of some) clock.delete(one)
  vi.runOnlyPendingTimers()
  expect(vi.getTimerCount()).toBe(0)
  vi.useRealTimers()
})
