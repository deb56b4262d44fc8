import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isoInstant } from '../../src/domain/iso-instant.ts'

const MOST_MS = 8_640_000_000_000_000
/** Years of four digits. */
const FIRST_MS = Date.parse('0000-01-01T00:00:00.000Z')
const LAST_MS = Date.parse('9999-12-31T23:59:59.999Z')

test('is what a Date says, for any time that a Date can hold', () => {
  const usual = fc.integer({ min: FIRST_MS, max: LAST_MS })
  const any = fc.integer({ min: -MOST_MS, max: MOST_MS })
  fc.assert(
    fc.property(fc.oneof(usual, any, fc.double({ min: -MOST_MS, max: MOST_MS, noNaN: true })), ms => {
      expect(isoInstant(ms)).toBe(new Date(ms).toISOString())
    }),
    { numRuns: 5000 },
  )
})

test.each([0, -1, 951_782_400_000, FIRST_MS, FIRST_MS - 1, LAST_MS, LAST_MS + 1])('at %d, too', ms => {
  expect(isoInstant(ms)).toBe(new Date(ms).toISOString())
})

test.each([Number.NaN, Number.POSITIVE_INFINITY, MOST_MS + 1])('of %d there is none', ms => {
  expect(() => isoInstant(ms)).toThrow(RangeError)
})
