import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { KeyGrant } from '../../src/domain/key/key-record.ts'
import { describeKey } from '../../src/gateway/describe-key.ts'
import { grantOf } from '../support/key-records.ts'

function described(grant: KeyGrant): unknown {
  return JSON.parse(Buffer.from(String(describeKey(grant).body), 'latin1').toString())
}

function expected({ workspaceId, scopes, id, hint, expiresAtMs }: KeyGrant): unknown {
  return { workspaceId, scopes, keyId: id, hint, expiresAt: new Date(expiresAtMs).toISOString() }
}

// One after the other, as what is kept of one key must never be told another.
const first = grantOf({ id: 'key_01KA0000000000000000000A9Z' })
const alike: [string, KeyGrant][] = [
  ['id', { ...first, id: 'key_01KB0000000000000000000A9Z' }],
  ['workspace', { ...first, workspaceId: 'ws_other' }],
  ['scopes', { ...first, scopes: ['workspace:read'] }],
  ['hint', { ...first, hint: 'wsk_…0000' }],
  ['expiry', { ...first, expiresAtMs: first.expiresAtMs + 1 }],
]

test.each(alike)('a key is told what it is itself, where another has all but its %s', (_what, other) => {
  for (const grant of [first, other, first]) expect(described(grant)).toEqual(expected(grant))
})

test('each of many keys is told what it is itself, and told it again', () => {
  const keys = Array.from({ length: 1_000 }, (_, index) => grantOf({ id: `key_${index}` }))
  for (const grant of [...keys, ...keys]) expect(described(grant)).toEqual(expected(grant))
})

test('ids of one character are ids', () => {
  for (const id of ['a', 'b', '0']) expect(described(grantOf({ id }))).toMatchObject({ keyId: id })
})

test('a hint is told as it was issued, whatever characters it has', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 128 }), hint => {
      const grant = grantOf({ hint })
      const { length } = describeKey(grant)
      expect(described(grant)).toEqual(expected(grant))
      expect(length).toEqual(['content-length', String(Buffer.byteLength(JSON.stringify(expected(grant))))])
    }),
  )
})
