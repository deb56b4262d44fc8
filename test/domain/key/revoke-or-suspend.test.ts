import { describe, expect, test } from 'vitest'
import {
  planResumption,
  planRevocation,
  planRotation,
  planSuspension,
} from '../../../src/domain/key/key-life.ts'
import { keyState } from '../../../src/domain/key/key-record.ts'
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

const FINAL = [
  ['revoked', revoked(someKey()).record],
  ['expired', someKey({ expiresAtMs: NOW_MS }).record],
  ['expired', someKey({ expiresAtMs: NOW_MS, suspendedAtMs: NOW_MS - 1 }).record],
] as const

describe('suspending', () => {
  test.each([
    ['active', someKey({ version: 3 }).record],
    ['retiring', someKey({ version: 3, replacedBy: 'key_next' }).record],
  ])('a key that is %s says since when, and leaves its expiry', (_, record) => {
    expect(planSuspension(record, NOW_MS)).toEqual({
      kind: 'planned',
      record: { ...record, suspendedAtMs: NOW_MS, version: 4 },
    })
  })

  test('again changes nothing: the first moment stays', () => {
    const { record } = someKey({ suspendedAtMs: NOW_MS - 1000 })
    expect(planSuspension(record, NOW_MS)).toEqual({ kind: 'planned', record })
  })

  test.each(FINAL)('a key that is %s is refused: that is final', (state, record) => {
    expect(planSuspension(record, NOW_MS)).toEqual({ kind: 'final', state })
  })
})

describe('resuming', () => {
  test.each([
    ['active', null],
    ['retiring', 'key_next'],
  ])('makes the key %s again', (state, replacedBy) => {
    const { record } = someKey({ suspendedAtMs: NOW_MS - 1, replacedBy, version: 2 })
    const planned = planResumption(record, NOW_MS)
    if (planned.kind !== 'planned') throw new Error('It was refused')
    expect(planned.record).toEqual({ ...record, suspendedAtMs: null, version: 3 })
    expect(keyState(planned.record, NOW_MS)).toBe(state)
  })

  test('a key that is not suspended changes nothing', () => {
    const { record } = someKey()
    const planned = planResumption(record, NOW_MS)
    expect(planned.kind === 'planned' && planned.record).toBe(record)
  })

  test.each(FINAL)('a key that is %s is refused: that is final', (state, record) => {
    expect(planResumption(record, NOW_MS)).toEqual({ kind: 'final', state })
  })
})

describe('a suspended key', () => {
  const { record } = someKey({ suspendedAtMs: NOW_MS - 1, version: 2 })

  test('can be revoked, which ends the suspension for good', () => {
    const after = planRevocation(record, NOW_MS)
    expect(after).toEqual({ ...record, suspendedAtMs: null, revokedAtMs: NOW_MS, version: 3 })
    expect(planResumption(after, NOW_MS)).toEqual({ kind: 'final', state: 'revoked' })
  })

  test('cannot be rotated: its successor would work', () => {
    const context = { id: 'key_next', hint: 'wsk_…next', createdBy: 'ada', nowMs: NOW_MS }
    expect(planRotation(record, {}, context)).toEqual({ kind: 'not_active', state: 'suspended' })
  })

  test('expires on time', () => {
    expect(keyState(record, record.expiresAtMs)).toBe('expired')
  })
})
