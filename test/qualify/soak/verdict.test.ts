import { describe, expect, test } from 'vitest'
import type { Holdings } from '../../support/inspected-process.ts'
import { growthOf } from './report.ts'
import type { SoakReport } from './soak.ts'
import { type Asked, judge } from './verdict.ts'

const own: Asked = { kind: 'own', workspaceId: 'ws_1', requestId: 'q1' }
const refusal = (code: string) => JSON.stringify({ code, error: 'x' })

/** A check that nothing violates would prove nothing. */
describe('a response under faults', () => {
  test.each<[Asked, number, string]>([
    [own, 200, '{"workspace":"ws_1","request":"q1"}'],
    [{ kind: 'self', workspaceId: 'ws_1' }, 200, '{"workspaceId":"ws_1"}'],
    [{ kind: 'foreign' }, 404, refusal('not_found')],
    [{ kind: 'forged' }, 401, refusal('key_invalid')],
    [{ kind: 'revoked' }, 401, refusal('key_revoked')],
  ])('is right: %j %i', (asked, status, body) => {
    expect(judge(asked, { status, body }).kind).toBe('right')
  })

  test.each<[Asked, number, string]>([
    [own, 502, refusal('upstream_error')],
    [own, 503, refusal('key_store_unavailable')],
    [own, 504, refusal('upstream_timeout')],
    [{ kind: 'revoked' }, 503, refusal('key_store_unavailable')],
  ])('is an allowed failure: %j %i', (asked, status, body) => {
    expect(judge(asked, { status, body }).kind).toBe('failed')
  })

  test.each<[Asked, number, string]>([
    [own, 200, '{"workspace":"ws_2","request":"q1"}'],
    [own, 200, '{"workspace":"ws_1","request":"q2"}'],
    [own, 200, '{"workspace":"ws_1","requ'],
    [own, 401, refusal('key_invalid')],
    [own, 404, refusal('not_found')],
    [own, 500, refusal('internal_error')],
    [{ kind: 'foreign' }, 200, '{}'],
    [{ kind: 'foreign' }, 403, refusal('scope_missing')],
    [{ kind: 'revoked' }, 200, '{}'],
    [{ kind: 'forged' }, 200, '{}'],
  ])('is wrong: %j %i %s', (asked, status, body) => {
    expect(judge(asked, { status, body }).kind).toBe('wrong')
  })
})

test('resources that are not released are reported', () => {
  const held: Holdings = { heapBytes: 100, residentBytes: 100, descriptors: 9, sockets: 3, timers: 2 }
  const report = (end: Partial<Holdings>) => {
    const stages = { fresh: held, warm: held, half: held, end: { ...held, ...end } }
    return {
      revocationsSinceHalf: 0,
      gateway: stages,
      console: { fresh: held, warm: held, half: held, end: held },
    } as unknown as SoakReport
  }
  expect(growthOf(report({ heapBytes: 102, timers: 1 }), 0.02)).toEqual([])
  expect(growthOf(report({ heapBytes: 103 }), 0.02)).toEqual(['gateway: heapBytes 103, at most 102'])
  expect(growthOf(report({ sockets: 6, descriptors: 12, timers: 7 }), 0.02)).toHaveLength(3)
})
