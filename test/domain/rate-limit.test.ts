import { describe, expect, test } from 'vitest'
import {
  counterName,
  denialOfCounts,
  localLimit,
  type PolicyCount,
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

function count(changes: Partial<PolicyCount> = {}): PolicyCount {
  return { policy: policy(), exceeded: false, remaining: 1, resetMs: 1_500, ...changes }
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
