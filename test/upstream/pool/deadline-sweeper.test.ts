import { expect, test, vi } from 'vitest'
import { DeadlineClock, NOWHERE } from '../../../src/upstream/pool/deadline-sweeper.ts'

test('everything under way hears the time, and what left does not', () => {
  let nowMs = 7
  const clock = new DeadlineClock(() => nowMs)
  const heard: number[] = []
  const stays = { place: NOWHERE, checkDeadline: (at: number) => void heard.push(at) }
  const leaves = { place: NOWHERE, checkDeadline: () => clock.delete(leaves) }
  clock.add(leaves)
  clock.add(stays)
  clock.tick()
  nowMs = 9
  clock.tick()
  expect(heard).toEqual([7, 9])
  clock.stop()
})

test('whoever leaves, in whatever order, none of the others misses the time', () => {
  const clock = new DeadlineClock(() => 0)
  const heard = new Set<number>()
  const all = Array.from({ length: 5 }, (_, index) => ({
    place: NOWHERE,
    checkDeadline: () => void heard.add(index),
  }))
  for (const one of all) clock.add(one)
  for (const index of [4, 0, 2, 0]) {
    const one = all[index]
    if (one !== undefined) clock.delete(one)
  }
  clock.tick()
  expect([...heard].sort()).toEqual([1, 3])
  clock.stop()
})

test('what is added twice is asked once', () => {
  const clock = new DeadlineClock(() => 0)
  let times = 0
  const twice = { place: NOWHERE, checkDeadline: () => void times++ }
  clock.add(twice)
  clock.add(twice)
  clock.tick()
  clock.delete(twice)
  clock.tick()
  expect(times).toBe(1)
  clock.stop()
})

test('it runs only while something is under way, on one timer for all', () => {
  vi.useFakeTimers()
  const clock = new DeadlineClock(() => 0)
  const some = [1, 2].map(() => ({ place: NOWHERE, checkDeadline() {} }))
  for (const one of some) clock.add(one)
  expect(vi.getTimerCount()).toBe(1)
  for (const one of some) clock.delete(one)
  vi.runOnlyPendingTimers()
  expect(vi.getTimerCount()).toBe(0)
  vi.useRealTimers()
})
