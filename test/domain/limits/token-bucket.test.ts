import { expect, test } from 'vitest'
import { TokenBucket } from '../../../src/domain/rate-limit.ts'

const BUCKET = { perSecond: 2, burst: 3 }

test('a burst is allowed at once, and no more', () => {
  const bucket = new TokenBucket(BUCKET)
  expect([1, 2, 3, 4].map(() => bucket.take(1_000))).toEqual([true, true, true, false])
})

test('after a burst, so many are allowed as the time gives', () => {
  const bucket = new TokenBucket(BUCKET)
  for (let count = 0; count < 3; count++) bucket.take(1_000)
  expect(bucket.take(1_499)).toBe(false)
  expect(bucket.take(1_500)).toBe(true)
  expect(bucket.take(1_500)).toBe(false)
})

test('a pause gives back no more than a burst', () => {
  const bucket = new TokenBucket(BUCKET)
  for (let count = 0; count < 3; count++) bucket.take(1_000)
  expect([1, 2, 3, 4].map(() => bucket.take(1_000_000))).toEqual([true, true, true, false])
})

test('what is put back can be taken again, and a full bucket stays full', () => {
  const bucket = new TokenBucket(BUCKET)
  bucket.putBack()
  for (let count = 0; count < 3; count++) expect(bucket.take(1_000)).toBe(true)
  bucket.putBack()
  expect([1, 2].map(() => bucket.take(1_000))).toEqual([true, false])
})
