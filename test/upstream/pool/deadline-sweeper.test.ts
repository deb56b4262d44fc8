import { expect, test, vi } from 'vitest'
import { DeadlineSweeper, NO_SLOT } from '../../../src/upstream/pool/deadlines.ts'

test('items are checked until they are deleted', () => {
  let nowMs = 7
  const sweeper = new DeadlineSweeper(() => nowMs)
  const checkedAtMs: number[] = []
  const stays = { slot: NO_SLOT, checkDeadline: (at: number) => void checkedAtMs.push(at) }
  const leaves = { slot: NO_SLOT, checkDeadline: () => sweeper.delete(leaves) }
  sweeper.add(leaves)
  sweeper.add(stays)
  sweeper.sweep()
  nowMs = 9
  sweeper.sweep()
  expect(checkedAtMs).toEqual([7, 9])
  sweeper.stop()
})

test('deleting items in any order does not skip others', () => {
  const sweeper = new DeadlineSweeper(() => 0)
  const checked = new Set<number>()
  const all = Array.from({ length: 5 }, (_, index) => ({
    slot: NO_SLOT,
    checkDeadline: () => void checked.add(index),
  }))
  for (const one of all) sweeper.add(one)
  for (const index of [4, 0, 2, 0]) {
    const one = all[index]
    if (one !== undefined) sweeper.delete(one)
  }
  sweeper.sweep()
  expect([...checked].sort()).toEqual([1, 3])
  sweeper.stop()
})

test('an item may delete all others while it is checked', () => {
  const sweeper = new DeadlineSweeper(() => 0)
  const checked: string[] = []
  const first = { slot: NO_SLOT, checkDeadline: () => void checked.push('first') }
  const last = {
    slot: NO_SLOT,
    checkDeadline: () => {
      checked.push('last')
      for (const one of [first, last]) sweeper.delete(one)
    },
  }
  for (const one of [first, last]) sweeper.add(one)
  sweeper.sweep()
  expect(checked).toEqual(['last'])
  sweeper.stop()
})

test('an item that is added twice is checked once', () => {
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

test('one timer serves all items, and stops without any', () => {
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

test('the timer runs on while there are items, and a deleted one is not among them', () => {
  vi.useFakeTimers()
  const sweeper = new DeadlineSweeper(() => 0)
  const checked: string[] = []
  const [stays, leaves] = ['stays', 'leaves'].map(name => ({
    slot: NO_SLOT,
    checkDeadline: () => void checked.push(name),
  }))
  if (stays === undefined || leaves === undefined) throw new Error('There are two')
  // It is in no sweeper yet.
  sweeper.delete(leaves)
  for (const one of [stays, leaves]) sweeper.add(one)
  expect(sweeper.all()).toEqual([stays, leaves])
  sweeper.delete(leaves)
  expect([sweeper.all(), leaves.slot]).toEqual([[stays], NO_SLOT])
  vi.advanceTimersByTime(50)
  expect(checked).toEqual(['stays', 'stays'])
  sweeper.stop()
  expect(vi.getTimerCount()).toBe(0)
  vi.useRealTimers()
})
