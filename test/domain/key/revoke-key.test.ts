import { expect, test } from 'vitest'
import { planRevocation } from '../../../src/domain/key/revoke-key.ts'
import { NOW_MS, revoked, someKey } from '../../support/stored-keys.ts'

test('revoking a key says when, and is a new version of it', () => {
  const { record } = someKey({ version: 3 })
  expect(planRevocation(record, NOW_MS)).toEqual({ ...record, revokedAtMs: NOW_MS, version: 4 })
})

test('a key that works until an overlap ends can be revoked before', () => {
  const { record } = someKey({ replacedBy: 'key_next' })
  expect(planRevocation(record, NOW_MS).revokedAtMs).toBe(NOW_MS)
})

test('revoking again changes nothing: the first moment stays', () => {
  const { record } = revoked(someKey(), NOW_MS - 1000)
  expect(planRevocation(record, NOW_MS)).toBe(record)
})

test('an expired key stays expired: that is final', () => {
  const { record } = someKey({ expiresAtMs: NOW_MS })
  expect(planRevocation(record, NOW_MS)).toBe(record)
})
