import { expect, test } from 'vitest'
import { UpstreamQueue } from '../../../src/upstream/pool/queue.ts'

test('who waits is served in order of arrival', () => {
  const queue = new UpstreamQueue<string>({ maxRequests: 2, maxWaitMs: 10 })
  for (const item of ['a', 'b', 'c']) queue.add(item, 0)
  expect(queue.delete('b')).toBe(true)
  expect(queue.delete('b')).toBe(false)
  expect([queue.take(), queue.take(), queue.take()]).toEqual(['a', 'c', undefined])
})

test('it is full at its bound; a bound of none is full from the start', () => {
  const queue = new UpstreamQueue<string>({ maxRequests: 1, maxWaitMs: 10 })
  expect(queue.isFull).toBe(false)
  queue.add('a', 0)
  expect(queue.isFull).toBe(true)
  expect(new UpstreamQueue({ maxRequests: 0, maxWaitMs: 10 }).isFull).toBe(true)
})

test('overdue are those who have waited for the whole time', () => {
  const queue = new UpstreamQueue<string>({ maxRequests: 9, maxWaitMs: 10 })
  queue.add('a', 0)
  queue.add('b', 5)
  expect(queue.overdue(9)).toEqual([])
  expect(queue.overdue(10)).toEqual(['a'])
  expect(queue.overdue(15)).toEqual(['a', 'b'])
})
