import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { KeyGrant } from '../../src/domain/key/key-record.ts'
import { describeKey } from '../../src/gateway/responses.ts'
import { grantOf } from '../support/key-records.ts'

function described(grant: KeyGrant): unknown {
  return JSON.parse(Buffer.from(String(describeKey(grant).body), 'latin1').toString())
}

function expected({ workspaceId, scopes, id, hint, expiresAtMs, plan }: KeyGrant): unknown {
  return { workspaceId, scopes, keyId: id, hint, expiresAt: new Date(expiresAtMs).toISOString(), plan }
}

// Described one after the other, because a response must not hold data of an earlier key.
const first = grantOf({ id: 'key_01KA0000000000000000000A9Z' })
const similar: [string, KeyGrant][] = [
  ['id', { ...first, id: 'key_01KB0000000000000000000A9Z' }],
  ['workspace', { ...first, workspaceId: 'ws_other' }],
  ['scopes', { ...first, scopes: ['workspace:read'] }],
  ['hint', { ...first, hint: 'wsk_…0000' }],
  ['expiry', { ...first, expiresAtMs: first.expiresAtMs + 1 }],
  ['plan', { ...first, plan: 'free' }],
]

test.each(similar)('a key gets its own description if another key differs in its %s only', (_what, other) => {
  for (const grant of [first, other, first]) expect(described(grant)).toEqual(expected(grant))
})

test('each of many keys gets its own description, also the second time', () => {
  const keys = Array.from({ length: 1_000 }, (_, index) => grantOf({ id: `key_${index}` }))
  for (const grant of [...keys, ...keys]) expect(described(grant)).toEqual(expected(grant))
})

test('a description is JSON that caches do not store and browsers do not sniff', () => {
  const { status, fields } = describeKey(first)
  expect([status, ...fields]).toEqual([
    200,
    ...['content-type', 'application/json; charset=utf-8'],
    ...['cache-control', 'no-store'],
    ...['x-content-type-options', 'nosniff'],
  ])
})

test('an id may have one character', () => {
  for (const id of ['a', 'b', '0']) expect(described(grantOf({ id }))).toMatchObject({ keyId: id })
})

test('a hint is returned unchanged, with any characters', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 128 }), hint => {
      const grant = grantOf({ hint })
      const { lengthField } = describeKey(grant)
      expect(described(grant)).toEqual(expected(grant))
      expect(lengthField).toEqual([
        'content-length',
        String(Buffer.byteLength(JSON.stringify(expected(grant)))),
      ])
    }),
  )
})
