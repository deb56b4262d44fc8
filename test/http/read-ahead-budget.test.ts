import { expect, test } from 'vitest'
import { ReadAheadBudget } from '../../src/http/read-ahead-budget.ts'

test('connections share a budget up to its last byte, and give back what they no longer need', () => {
  const budget = new ReadAheadBudget(10)
  const [one, other] = [budget.share(), budget.share()]
  expect([one.set(6), other.set(4), other.set(5)]).toEqual([true, true, false])
  expect([other.set(3), one.set(7)]).toEqual([true, true])
  one.release()
  one.release()
  expect([other.set(10), other.set(11)]).toEqual([true, false])
})
