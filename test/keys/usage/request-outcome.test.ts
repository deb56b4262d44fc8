import { expect, test } from 'vitest'
import { DENIAL_REASONS, denialRow } from '../../../src/domain/denial.ts'
import { nameOutcome, wasAuthenticated } from '../../../src/keys/usage/usage-counts.ts'

const END = { status: 200, aborted: false, truncated: false, reason: null } as const

test.each([
  ['a 200', {}, 'ok'],
  ['a 304', { status: 304 }, 'ok'],
  ['a 400 of the upstream that is passed on', { status: 400 }, 'upstream_rejected'],
  ['a 4xx of the upstream that is passed on', { status: 409 }, 'upstream_rejected'],
  ['a response that the upstream broke off', { truncated: true }, 'upstream_error'],
  ['a response that the client did not wait for', { aborted: true }, 'client_aborted'],
  ['another workspace', { status: 404, reason: 'other_workspace' }, 'not_found'],
] as const)('usage counts %s as %s', (_, changes, code) => {
  expect(nameOutcome({ ...END, ...changes })).toBe(code)
})

test('usage counts every denial by its public code', () => {
  for (const reason of DENIAL_REASONS) {
    const { status, code } = denialRow(reason)
    expect(nameOutcome({ ...END, status, reason })).toBe(code)
  }
})

test('a key counts as used also if its request was denied, but not if the key itself was refused', () => {
  const refused = DENIAL_REASONS.filter(reason => !wasAuthenticated(reason))
  const ofTheKey = [
    'key_missing',
    'key_malformed',
    'key_invalid',
    'key_expired',
    'key_revoked',
    'key_suspended',
  ]
  expect(refused).toEqual(ofTheKey)
  expect(wasAuthenticated(null)).toBe(true)
})
