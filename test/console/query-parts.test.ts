import { expect, test } from 'vitest'
import { mostFirstRows, takePage } from '../../src/console/platform/database/query-parts.ts'
import { describeQueryParts } from './query-parts.contract.ts'

describeQueryParts('SQLite', async () => 'sqlite::memory:')

const place = (row: number) => `after ${row}`

test.each([
  [[1, 2, 3], 2, [1, 2], 'after 2'],
  [[1, 2], 2, [1, 2], null],
  [[1], 2, [1], null],
  [[], 2, [], null],
])('of the rows %j a page of %d has %j, and the next one begins: %s', (found, limit, rows, next) => {
  expect(takePage<number, string>(found, limit, place)).toEqual({ rows, next })
})

test('after the rows that were found the next page begins at the end of what was examined', () => {
  expect(takePage([1], 2, place, 'the end').next).toBe('the end')
  expect(takePage([1, 2, 3], 2, place, 'the end').next).toBe('after 2')
})

test.each([
  ['sqlite', 3, Number.POSITIVE_INFINITY],
  ['postgres', null, Number.POSITIVE_INFINITY],
  ['postgres', 1, Number.POSITIVE_INFINITY],
  // Each workspace reads its first rows, so that two read twice as many.
  ['postgres', 2, 5_000],
  ['postgres', 10, 1_000],
  // More workspaces than rows: the nth reads none of the first n - 1, which is half of the square.
  ['postgres', 1_000, 141],
] as const)('on %s a statement about %s workspaces asks for at most %d rows', (dialect, workspaces, most) => {
  const ids = workspaces === null ? null : Array.from({ length: workspaces }, (_, index) => `ws_${index}`)
  expect(mostFirstRows(ids, dialect)).toBe(most)
})
