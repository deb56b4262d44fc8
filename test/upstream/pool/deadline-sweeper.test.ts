import { expect, test, vi } from 'vitest'
import { DeadlineSweeper, NO_SLOT } from '../../../src/upstream/pool/deadline-sweeper.ts'

test('everything under way hears the time, and what left does not', () => {
  let nowMs = 7
  const sweeper = new DeadlineSweeper(() => nowMs)
  const heard: number[] = []
  const stays = { slot: NO_SLOT, checkDeadline: (at: number) => void heard.push(at) }
  const leaves = { slot: NO_SLOT, checkDeadline: () => sweeper.delete(leaves) }
  sweeper.add(leaves)
  sweeper.add(stays)
  sweeper.sweep()
  nowMs = 9
  sweeper.sweep()
  expect(heard).toEqual([7, 9])
  sweeper.stop()
})

test('whoever leaves, in whatever order, none of the others misses the time', () => {
  const sweeper = new DeadlineSweeper(() => 0)
  const heard = new Set<number>()
  const all = Array.from({ length: 5 }, (_, index) => ({
    slot: NO_SLOT,
    checkDeadline: () => void heard.add(index),
  }))
  for (const one of all) sweeper.add(one)
  for (const index of [4, 0, 2, 0]) {
    const one = all[index]
    if (one !== undefined) sweeper.delete(one)
  }
  sweeper.sweep()
  expect([...heard].sort()).toEqual([1, 3])
  sweeper.stop()
})

test('what is added twice is asked once', () => {
  const sweeper = new DeadlineSweeper(() => 0)
  let times = 0
  const twice = { slot: NO_SLOT, checkDeadline: () => void times++ }
  sweeper.add(twice)
  sweeper.add(twice)
  sweeper.sweep()
  sweeper.delete(twice)
  sweeper.sweep()
  expect(times).toBe(1)
  sweeper.stop()
})

test('it runs only while something is under way, on one timer for all', () => {
  vi.useFakeTimers()
  const sweeper = new DeadlineSweeper(() => 0)
  const some = [1, 2].map(() => ({ slot: NO_SLOT, checkDeadline() {} }))
  for (const one of some) sweeper.add(one)
  expect(vi.getTimerCount()).toBe(1)
  for (const one of some) sweeper.delete(one)
  vi.runOnlyPendingTimers()
  expect(vi.getTimerCount()).toBe(0)
  vi.useRealTimers()
})
