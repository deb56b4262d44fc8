import { expect, test } from 'vitest'
import { hasBody } from '../../src/http/request-boundaries.ts'

test.each([
  ['without either field', {}, false],
  ['with an empty one', { 'content-length': '0' }, false],
  ['with a length', { 'content-length': '1' }, true],
  ['in chunks', { 'transfer-encoding': 'chunked' }, true],
])('a request %s', (_, headers, expected) => {
  expect(hasBody({ headers })).toBe(expected)
})
