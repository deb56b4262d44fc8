import { describe, expect, test } from 'vitest'
import { isNearLimit, type PolicyCount, type RatePolicy } from '../../src/domain/rate-limit.ts'
import { NearLimits } from '../../src/limits/near-limits.ts'

const QUOTA: RatePolicy = { name: 'quota', per: 'workspace', requests: 10, window: 'month' }
const BURST: RatePolicy = { name: 'burst', per: 'key', requests: 10, windowSeconds: 60 }
const GRANT = { workspaceId: 'ws_1', id: 'key_1' }
const NOW_MS = Date.parse('2026-11-20T09:00:00Z')

const counted = (policy: RatePolicy, used: number): PolicyCount => ({
  policy,
  windowSeconds: policy.windowSeconds ?? 2_592_000,
  exceeded: used > policy.requests,
  remaining: Math.max(0, policy.requests - used),
  resetMs: 60_000,
})

function noted(...counts: readonly PolicyCount[]) {
  const limits = new NearLimits()
  for (const count of counts.filter(isNearLimit))
    limits.note(count.policy.name, count, { grant: GRANT, plan: 'free' }, NOW_MS)
  return limits.take(10)
}

describe('a limit is reported to the console', () => {
  test('from 80 % on, as it was seen last, however often it was counted', () => {
    expect(noted(counted(QUOTA, 7))).toEqual([])
    const window = {
      plan: 'free',
      policy: 'quota',
      windowSeconds: null,
      requests: 10,
      endsAt: NOW_MS + 60_000,
    }
    expect(noted(...[8, 9, 11, 12].map(used => counted(QUOTA, used)))).toEqual([
      { workspaceId: 'ws_1', keyId: null, used: 10, ...window },
    ])
  })

  test('with its key if the policy counts each key by itself', () => {
    expect(noted(counted(BURST, 8))).toMatchObject([{ keyId: 'key_1', windowSeconds: 60, used: 8 }])
  })

  test('once: the next report says only what was counted since', () => {
    const limits = new NearLimits()
    const note = (policy: RatePolicy, used: number) =>
      limits.note(policy.name, counted(policy, used), { grant: GRANT, plan: null }, NOW_MS)
    note(QUOTA, 8)
    note(BURST, 9)
    expect(limits.take(1)).toMatchObject([{ policy: 'quota', used: 8 }])
    note(QUOTA, 10)
    expect(limits.take(10)).toMatchObject([{ policy: 'burst' }, { policy: 'quota', used: 10 }])
    expect(limits.take(10)).toEqual([])
  })

  test('unless its window is over before people read of it', () => {
    expect(noted(counted({ ...BURST, windowSeconds: 59 }, 10))).toEqual([])
  })

  test('within bounds: of more than 10,000 the others wait for their next request', () => {
    const limits = new NearLimits()
    const note = (counter: number, used = 8) => noteFor(limits, `ws_${counter % 20}`, counter, used)
    for (let counter = 0; counter < 10_001; counter++) note(counter)
    note(0, 9)
    expect(limits.size).toBe(10_000)
    expect(limits.take(1)).toMatchObject([{ used: 9 }])
    note(10_000)
    expect(limits.size).toBe(10_000)
  })

  test('a workspace with thousands of keys at their limits takes a tenth of the places at most', () => {
    const limits = new NearLimits()
    for (let key = 0; key < 1_001; key++) noteFor(limits, 'ws_1', key, 8)
    expect(limits.size).toBe(1_000)
    noteFor(limits, 'ws_2', 1_001, 8)
    expect(limits.size).toBe(1_001)
    expect(limits.take(1_000)).toHaveLength(1_000)
    noteFor(limits, 'ws_1', 1_000, 8)
    expect(limits.take(10)).toMatchObject([{ workspaceId: 'ws_2' }, { workspaceId: 'ws_1' }])
  })
})

function noteFor(limits: NearLimits, workspaceId: string, counter: number, used: number): void {
  const limited = { grant: { workspaceId, id: 'key_1' }, plan: null }
  limits.note(String(counter), counted(QUOTA, used), limited, NOW_MS)
}
