import fc from 'fast-check'
import { expect, test } from 'vitest'
import { MAX_OVERLAP_SECONDS, planRotation } from '../../../src/domain/key/key-life.ts'
import { keyState } from '../../../src/domain/key/key-record.ts'
import { NOW_MS, revoked, someKey } from '../../support/stored-keys.ts'

const context = { id: 'key_next', hint: 'wsk_…next', createdBy: 'ada', nowMs: NOW_MS }
const DAY_MS = 86_400_000

test('the new key has the same workspace, name, description, scopes, networks and plan, and expires after 90 days', () => {
  const chosen = { description: 'nightly', allowedCidrs: ['192.0.2.0/24'], plan: 'free' }
  const { record } = someKey({
    expiresAtMs: NOW_MS + DAY_MS,
    version: 4,
    rotatedFrom: 'key_before',
    ...chosen,
  })
  const planned = planRotation(record, {}, context)
  const { workspaceId, name, scopes } = record
  const own = { id: 'key_next', hint: 'wsk_…next', createdBy: 'ada', createdAtMs: NOW_MS, version: 1 }
  const links = { rotatedFrom: record.id, replacedBy: null, revokedAtMs: null }
  expect(planned).toMatchObject({
    kind: 'planned',
    rotation: {
      successor: {
        workspaceId,
        name,
        scopes,
        ...chosen,
        ...own,
        ...links,
        expiresAtMs: NOW_MS + 90 * DAY_MS,
      },
      replaced: { ...record, replacedBy: 'key_next', expiresAtMs: NOW_MS + DAY_MS, version: 5 },
      overlapSeconds: 86_400,
    },
  })
})

test.each([0, 0.0004])(
  'an overlap of %d seconds, which rounds to 0 ms, revokes the old key',
  overlapSeconds => {
    const { record } = someKey({ version: 3 })
    const planned = planRotation(record, { overlapSeconds }, context)
    const ended = { revokedAtMs: NOW_MS, expiresAtMs: NOW_MS, replacedBy: 'key_next', version: 4 }
    expect(planned).toMatchObject({ rotation: { replaced: { ...record, ...ended } } })
  },
)

test('the old key expires when the overlap ends, or at its own expiry if that is earlier', () => {
  const overlaps = fc.double({ min: 0, max: MAX_OVERLAP_SECONDS, noNaN: true })
  const lives = fc.integer({ min: 1, max: 366 * DAY_MS })
  fc.assert(
    fc.property(overlaps, lives, (overlapSeconds, lifeMs) => {
      const { record } = someKey({ expiresAtMs: NOW_MS + lifeMs })
      const planned = planRotation(record, { overlapSeconds }, context)
      if (planned.kind !== 'planned') throw new Error('The rotation was rejected')
      const { replaced } = planned.rotation
      expect(replaced.expiresAtMs).toBe(
        Math.min(record.expiresAtMs, NOW_MS + Math.round(overlapSeconds * 1000)),
      )
      const hasOverlap = Math.round(overlapSeconds * 1000) > 0
      expect(keyState(replaced, NOW_MS)).toBe(hasOverlap ? 'retiring' : 'revoked')
      expect(keyState(replaced, replaced.expiresAtMs)).toBe(hasOverlap ? 'expired' : 'revoked')
    }),
  )
})

test.each([
  ['retiring', someKey({ replacedBy: 'key_x' })],
  ['suspended', someKey({ suspendedAtMs: NOW_MS - 1 })],
  ['revoked', revoked(someKey())],
  ['expired', someKey({ expiresAtMs: NOW_MS })],
] as const)('a key that is %s has no successor', (state, { record }) => {
  expect(planRotation(record, {}, context)).toEqual({ kind: 'not_active', state })
})

test.each([-1, MAX_OVERLAP_SECONDS + 1, Number.NaN, Number.POSITIVE_INFINITY])(
  'an overlap of %d seconds is rejected, in every state of the key',
  overlapSeconds => {
    const planned = planRotation(revoked(someKey()).record, { overlapSeconds }, context)
    expect(planned).toMatchObject({ kind: 'invalid', field: 'overlapSeconds' })
  },
)
