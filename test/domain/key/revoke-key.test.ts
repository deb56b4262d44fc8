import { expect, test } from 'vitest'
import { planRevocation } from '../../../src/domain/key/revoke-key.ts'
import { NOW_MS, revoked, someKey } from '../../support/stored-keys.ts'

test('a revocation records its time and increments the version', () => {
  const { record } = someKey({ version: 3 })
  expect(planRevocation(record, NOW_MS)).toEqual({ ...record, revokedAtMs: NOW_MS, version: 4 })
})

test('a retiring key can be revoked before its overlap ends', () => {
  const { record } = someKey({ replacedBy: 'key_next' })
  expect(planRevocation(record, NOW_MS).revokedAtMs).toBe(NOW_MS)
})

test('revoking a key again keeps the time of the first revocation', () => {
  const { record } = revoked(someKey(), NOW_MS - 1000)
  expect(planRevocation(record, NOW_MS)).toBe(record)
})

test('revoking an expired key has no effect', () => {
  const { record } = someKey({ expiresAtMs: NOW_MS })
  expect(planRevocation(record, NOW_MS)).toBe(record)
})
