import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isoInstant } from '../../src/domain/iso-instant.ts'

const MOST_MS = 8_640_000_000_000_000

test('is what a Date says, for any time that a Date can hold', () => {
  const recent = fc.integer({ min: Date.UTC(0, 0), max: Date.UTC(9999, 11, 31, 23, 59, 59, 999) })
  const any = fc.integer({ min: -MOST_MS, max: MOST_MS })
  fc.assert(
    fc.property(fc.oneof(recent, any, fc.double({ min: -MOST_MS, max: MOST_MS, noNaN: true })), ms => {
      expect(isoInstant(ms)).toBe(new Date(ms).toISOString())
    }),
    { numRuns: 5000 },
  )
})

test.each([
  0,
  -1,
  951_782_400_000,
  Date.parse('0000-01-01T00:00:00.000Z'),
  Date.parse('0000-01-01T00:00:00.000Z') - 1,
  Date.parse('9999-12-31T23:59:59.999Z'),
  Date.parse('9999-12-31T23:59:59.999Z') + 1,
])('at %d, too', ms => {
  expect(isoInstant(ms)).toBe(new Date(ms).toISOString())
})

test.each([Number.NaN, Number.POSITIVE_INFINITY, MOST_MS + 1])('of %d there is none', ms => {
  expect(() => isoInstant(ms)).toThrow(RangeError)
})
