import { expect, test } from 'vitest'
import { createIds } from '../../src/console/platform/database/ids.ts'
import { isKeyId } from '../../src/domain/id-form.ts'

const NOW_MS = Date.UTC(2026, 10, 20)
const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

test('ids grow, also within a millisecond and while the clock is set back', () => {
  const next = createIds('key', size => crypto.getRandomValues(new Uint8Array(size)))
  const ids = [0, 0, 1, 1, -5_000, 2].map(ms => next(NOW_MS + ms))
  expect(ids.toSorted()).toEqual(ids)
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids.filter(id => !isKeyId(id))).toEqual([])
})

test('ids of two consoles differ by all random bits: each byte decides a character', () => {
  let byte = 0
  const suffixes = Array.from({ length: 256 }, (_, value) => {
    byte = value
    return createIds('tok', () => new Uint8Array([byte]))(NOW_MS).slice(-16)
  })
  expect(suffixes).toEqual(
    Array.from({ length: 256 }, (_, value) => (ALPHABET[Math.floor(value / 8)] ?? '').repeat(16)),
  )
})

test.each([
  ['key_01ARZ3NDEKTSV4RRFFQ69G5FAV', true],
  ['xkey_01ARZ3NDEKTSV4RRFFQ69G5FAV', false],
  ['key_01ARZ3NDEKTSV4RRFFQ69G5FAVX', false],
  ['key_01ARZ3NDEKTSV4RRFFQ69G5FA', false],
  ['key_01ARZ3NDEKTSV4RRFFQ69G5FAU', false],
  ['key_01arz3ndektsv4rrffq69g5fav', false],
  ['tok_01ARZ3NDEKTSV4RRFFQ69G5FAV', false],
])('%s has the form of a key id: %s', (text, isId) => {
  expect(isKeyId(text)).toBe(isId)
})
