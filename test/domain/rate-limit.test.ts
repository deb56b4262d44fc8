import { describe, expect, test } from 'vitest'
import {
  counterName as counterNameOf,
  currentWindow,
  denialOfCounts,
  localLimit,
  type PolicyCount,
  PolicyTable,
  type RatePolicy,
  selectPolicies,
} from '../../src/domain/rate-limit.ts'
import { exampleRecord, grantOf, routeNamed } from './examples.ts'

const GRANT = grantOf(exampleRecord({ id: 'key_1', workspaceId: 'ws_A' }))
const OTHER_KEY = grantOf(exampleRecord({ id: 'key_2', workspaceId: 'ws_A' }))
const OTHER_WORKSPACE = grantOf(exampleRecord({ id: 'key_3', workspaceId: 'ws_B' }))

function policy(changes: Partial<RatePolicy> = {}): RatePolicy {
  return { name: 'minute', per: 'workspace', requests: 10, windowSeconds: 60, ...changes }
}

const counterName = (of: RatePolicy, grant: typeof GRANT) => counterNameOf(of, currentWindow(of, 0), grant)

function count(changes: Partial<PolicyCount> = {}): PolicyCount {
  return { policy: policy(), windowSeconds: 60, exceeded: false, remaining: 1, resetMs: 1_500, ...changes }
}

describe('a policy applies to', () => {
  const all = policy({ name: 'all' })
  const ofFiles = policy({ name: 'files', route: 'files' })
  const ofScope = policy({ name: 'scope', scope: 'workspace:read' })
  const namesAt = (route: string) =>
    selectPolicies(routeNamed(route), [all, ofFiles, ofScope]).map(({ name }) => name)

  test('all routes if it names none, one route, or the routes that need a scope', () => {
    expect(namesAt('auth')).toEqual(['all'])
    expect(namesAt('files')).toEqual(['all', 'files'])
    expect(namesAt('workspace')).toEqual(['all', 'scope'])
  })
})

describe('for a key hold', () => {
  const minute = policy()
  const burst = policy({ name: 'burst', route: 'files' })
  const table = new PolicyTable({
    policies: [minute],
    plans: { free: { policies: [burst, policy({ requests: 1 })] }, unlimited: { policies: [] } },
  })
  const limitsOf = (plan: string | null, route = 'files') =>
    table.policiesFor(plan, routeNamed(route)).map(({ name, requests }) => `${name} ${requests}`)

  test('the policies of its plan in the place of the others, on the routes that each names', () => {
    expect(limitsOf(null)).toEqual(['minute 10'])
    expect(limitsOf('free')).toEqual(['burst 10', 'minute 1'])
    expect(limitsOf('free', 'auth')).toEqual(['minute 1'])
  })

  test('no policies if its plan has none', () => {
    expect(limitsOf('unlimited')).toEqual([])
  })

  test('the policies of keys without a plan if its plan is unknown, also one with the name of a property', () => {
    for (const plan of ['gold', 'constructor', '__proto__']) {
      expect(table.knows(plan)).toBe(false)
      expect(limitsOf(plan)).toEqual(['minute 10'])
    }
  })
})

describe('a counter', () => {
  test('per workspace is shared by all of its keys, so that a second key does not raise the limit', () => {
    expect(counterName(policy(), OTHER_KEY)).toBe(counterName(policy(), GRANT))
    expect(counterName(policy(), OTHER_WORKSPACE)).not.toBe(counterName(policy(), GRANT))
  })

  test('per key counts the requests of this key only', () => {
    const perKey = policy({ per: 'key' })
    expect(counterName(perKey, GRANT)).not.toBe(counterName(perKey, OTHER_KEY))
    expect(counterName(perKey, GRANT)).not.toBe(counterName(policy(), GRANT))
  })

  test('has the workspace as its hash tag, so that one cluster node holds all counters of a request', () => {
    expect(counterName(policy(), GRANT)).toBe('postern:limit:{ws_A}:minute:60')
    expect(counterName(policy({ name: 'burst', per: 'key', windowSeconds: 1 }), GRANT)).toBe(
      'postern:limit:{ws_A}:burst:1:key_1',
    )
  })

  test('of a month has its year and month in its name, so that each month begins at zero', () => {
    const month = policy({ name: 'quota', windowSeconds: undefined, window: 'month' })
    const at = (instant: string) => counterNameOf(month, currentWindow(month, Date.parse(instant)), GRANT)
    expect(at('2026-11-30T23:59:59.999Z')).toBe('postern:limit:{ws_A}:quota:2026-11')
    expect(at('2026-12-01T00:00:00Z')).toBe('postern:limit:{ws_A}:quota:2026-12')
  })

  test('has a unique name for every key id that a key service may issue', () => {
    const names = ['60', '60:a', 'a'].flatMap(id =>
      ['minute', 'minute-60'].map(name => counterName(policy({ name, per: 'key' }), { ...GRANT, id })),
    )
    expect(new Set(names).size).toBe(names.length)
  })
})

describe('a request', () => {
  test('within all policies is allowed', () => {
    expect(denialOfCounts([count(), count({ remaining: 0 })])).toBeNull()
    expect(denialOfCounts([])).toBeNull()
  })

  test('that exceeds a policy is rejected until the last exceeded window ends, rounded up to seconds', () => {
    const counts = [
      count({ resetMs: 90_000 }),
      count({ exceeded: true, resetMs: 1_001 }),
      count({ exceeded: true, resetMs: 400 }),
    ]
    expect(denialOfCounts(counts)).toEqual({ kind: 'denied', reason: 'rate_limited', retryAfterSeconds: 2 })
  })

  test('never gets a Retry-After of 0', () => {
    expect(denialOfCounts([count({ exceeded: true, resetMs: 0 })])).toMatchObject({ retryAfterSeconds: 1 })
  })
})

test('gateways that cannot count together allow at most the limit in sum, and each at least one request', () => {
  expect([localLimit(100, 1), localLimit(100, 3), localLimit(100, 100)]).toEqual([100, 33, 1])
  expect(localLimit(2, 5)).toBe(1)
})
