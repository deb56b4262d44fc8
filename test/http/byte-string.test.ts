import fc from 'fast-check'
import { expect, test } from 'vitest'
import { NO_BYTES, toByteString } from '../../src/http/buffered-response.ts'

test('a string of any length becomes its UTF-8 bytes, one character per byte', () => {
  const text = fc.oneof(
    fc.string({ maxLength: 400 }),
    fc.string({ unit: 'grapheme', maxLength: 400 }),
    fc.string({ unit: 'binary', minLength: 300, maxLength: 1200 }),
  )
  fc.assert(
    fc.property(text, body => {
      expect(Buffer.from(toByteString(body), 'latin1').equals(Buffer.from(body))).toBe(true)
    }),
    { numRuns: 2000 },
  )
})

test('a buffer becomes its bytes, one character per byte', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 2000 }), bytes => {
      expect(Buffer.from(toByteString(Buffer.from(bytes)), 'latin1').equals(Buffer.from(bytes))).toBe(true)
    }),
  )
})

test.each([341, 342])('a string of %d characters of three bytes each', length => {
  expect(toByteString('…'.repeat(length))).toHaveLength(3 * length)
})

test('an empty body has no bytes', () => {
  expect([NO_BYTES, toByteString('')]).toEqual(['', ''])
})

test('a conversion does not change the result of an earlier one', () => {
  const first = toByteString('wsk_…KQcW')
  toByteString('another key’s')
  expect(Buffer.from(first, 'latin1').toString()).toBe('wsk_…KQcW')
})
