import { describe, expect, it } from 'vitest'
import { isScope, isWorkspaceId, keyState, normalizeScopes } from '../../../src/domain/key/key-record.ts'
import { exampleRecord, NOW_MS } from '../examples.ts'

describe('the state of a key', () => {
  const later = NOW_MS + 1
  it.each([
    ['active', {}, NOW_MS],
    ['active', { expiresAtMs: later }, NOW_MS],
    ['expired', { expiresAtMs: NOW_MS }, NOW_MS],
    ['expired', { expiresAtMs: NOW_MS - 1 }, NOW_MS],
    ['retiring', { replacedBy: 'key_2', expiresAtMs: later }, NOW_MS],
    ['expired', { replacedBy: 'key_2', expiresAtMs: NOW_MS }, NOW_MS],
    ['suspended', { suspendedAtMs: NOW_MS }, NOW_MS],
    ['suspended', { suspendedAtMs: 0, replacedBy: 'key_2' }, NOW_MS],
    ['expired', { suspendedAtMs: 0, expiresAtMs: NOW_MS }, NOW_MS],
    ['revoked', { suspendedAtMs: 0, revokedAtMs: NOW_MS }, NOW_MS],
    ['revoked', { revokedAtMs: NOW_MS }, NOW_MS],
    ['revoked', { revokedAtMs: 0 }, NOW_MS],
    ['revoked', { revokedAtMs: NOW_MS, expiresAtMs: NOW_MS - 1 }, NOW_MS],
    ['revoked', { revokedAtMs: NOW_MS, replacedBy: 'key_2', expiresAtMs: later }, NOW_MS],
  ] as const)('is %s with %j', (state, changes, nowMs) => {
    expect(keyState(exampleRecord(changes), nowMs)).toBe(state)
  })
})

describe('a workspace id', () => {
  it.each(['a', 'ws_1', '...', '.a', 'A-Z.09_~', '0', 'x'.repeat(128), '__proto__'])('may be %j', id => {
    expect(isWorkspaceId(id)).toBe(true)
  })

  it.each([
    '',
    '.',
    '..',
    'x'.repeat(129),
    'a/b',
    'a b',
    'a\n',
    'a%41',
    'é',
    'a:b',
    'a;b',
    'a\\b',
    '*',
    '{a}',
  ])('may not be %j', id => {
    expect(isWorkspaceId(id)).toBe(false)
  })
})

describe('a scope', () => {
  it.each(['files:read', 'a', '*', '!', '~', 'x'.repeat(64)])('may be %j', scope => {
    expect(isScope(scope)).toBe(true)
  })

  it.each(['', ' ', 'a b', 'a"', 'a\\', 'a\n', 'é', '\x7f', 'x'.repeat(65)])('may not be %j', scope => {
    expect(isScope(scope)).toBe(false)
  })

  it('list is normalised: sorted, without duplicates', () => {
    expect(normalizeScopes(['b', 'a', 'b'])).toEqual(['a', 'b'])
  })
})
