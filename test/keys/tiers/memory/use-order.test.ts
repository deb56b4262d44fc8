import { expect, test } from 'vitest'
import { UseOrder } from '../../../../src/keys/tiers/memory/use-order.ts'

const ROWS = 200_000

test('of very many rows, too, the one that was used longest ago comes first', () => {
  const order = new UseOrder(ROWS)
  const rows = Array.from({ length: ROWS }, (_, number) => number + 1)
  for (const row of rows) order.join(row)
  const [used, left] = [rows.filter(row => row % 3 === 0), rows.filter(row => row % 7 === 0)]
  for (const row of used.toReversed()) order.touch(row)
  for (const row of left) order.leave(row)
  const expected = [...rows.filter(row => row % 3 !== 0), ...used.toReversed()].filter(row => row % 7 !== 0)
  expect(taken(order)).toEqual(expected)
  expect(order.oldest).toBe(0)
})

test('after all have left at once, those that join are the only ones', () => {
  const order = new UseOrder(3)
  for (const row of [1, 2, 3]) order.join(row)
  order.clear()
  expect(order.oldest).toBe(0)
  for (const row of [3, 1]) order.join(row)
  order.touch(3)
  expect(taken(order)).toEqual([1, 3])
})

function taken(order: UseOrder): number[] {
  const rows: number[] = []
  for (let row = order.oldest; row !== 0; row = order.oldest) {
    rows.push(row)
    order.leave(row)
  }
  return rows
}
