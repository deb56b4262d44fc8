import { describe, expect, it } from 'vitest'
import { authorize } from '../../src/domain/authorize.ts'
import type { DenialReason } from '../../src/domain/denial.ts'
import type { KeyRecord, Lookup } from '../../src/domain/key/key-record.ts'
import { exampleRecord, grantOf, matchOf, NOW_MS } from './examples.ts'

interface Input {
  lookup: Lookup
  match: ReturnType<typeof matchOf>
  query: string
  nowMs: number
  clientAddress: string
}

const RECORD = exampleRecord()

function found(changes: Partial<KeyRecord> = {}): Lookup {
  return { kind: 'found', grant: grantOf(exampleRecord(changes)), tier: 'memory' }
}

const GOOD: Input = {
  lookup: found(),
  match: matchOf('files', { workspaceId: 'ws_A' }),
  query: 'limit=5',
  nowMs: NOW_MS,
  clientAddress: '192.0.2.7',
}

function reasonOf(input: Input): DenialReason | 'permitted' {
  const verdict = authorize(input)
  return verdict.kind === 'permitted' ? 'permitted' : verdict.reason
}

/** Each failure alone, in the order of the checks. Failures of one record can be combined. */
const FAILURES: readonly {
  reason: DenialReason
  apply: (input: Input, record: Partial<KeyRecord>) => void
}[] = [
  { reason: 'key_revoked', apply: (_, record) => Object.assign(record, { revokedAtMs: NOW_MS - 1 }) },
  { reason: 'key_expired', apply: (_, record) => Object.assign(record, { expiresAtMs: NOW_MS }) },
  { reason: 'key_suspended', apply: (_, record) => Object.assign(record, { suspendedAtMs: NOW_MS - 1 }) },
  {
    reason: 'address_not_allowed',
    apply: (_, record) => Object.assign(record, { allowedCidrs: ['198.51.100.0/24'] }),
  },
  {
    reason: 'other_workspace',
    apply: input => {
      input.match = matchOf('files', { workspaceId: 'ws_B' })
    },
  },
  { reason: 'scope_missing', apply: (_, record) => Object.assign(record, { scopes: ['workspace:read'] }) },
  {
    reason: 'invalid_query',
    apply: input => {
      input.query = 'limit=0'
    },
  },
]

function failing(reasons: readonly DenialReason[]): Input {
  const input = { ...GOOD }
  const record: Partial<KeyRecord> = {}
  for (const { reason, apply } of FAILURES) if (reasons.includes(reason)) apply(input, record)
  return { ...input, lookup: found(record) }
}

describe('the decision', () => {
  it('permits a usable key its own workspace, within its scopes', () => {
    const verdict = authorize(GOOD)
    expect(verdict.kind === 'permitted' && verdict.permit.upstreamTarget).toBe(
      '/api/v1/workspaces/ws_A/files?limit=5',
    )
    expect(verdict.kind === 'permitted' && verdict.permit.grant).toEqual(grantOf(RECORD))
  })

  it.each(FAILURES.map(({ reason }) => [reason]))('is %s if that is the only failure', reason => {
    expect(reasonOf(failing([reason]))).toBe(reason)
  })

  it('says which parameter of a query is wrong', () => {
    expect(authorize(failing(['invalid_query']))).toMatchObject({
      detail: 'limit must be a whole number from 1 to 1000',
    })
  })

  const pairs = FAILURES.flatMap(({ reason: earlier }, index) =>
    FAILURES.slice(index + 1).map(({ reason: later }) => [earlier, later] as const),
  )
  it.each(pairs)('is %s rather than %s if both fail', (earlier, later) => {
    expect(reasonOf(failing([earlier, later]))).toBe(earlier)
  })

  it('is the first failure if all checks fail', () => {
    const reasons = FAILURES.map(({ reason }) => reason)
    while (reasons.length > 0) {
      expect(reasonOf(failing(reasons))).toBe(reasons[0])
      reasons.shift()
    }
  })

  it.each(FAILURES.map(({ reason }) => [reason]))(
    'says nothing of %s to a key that does not exist',
    reason => {
      const input = failing([reason])
      expect(reasonOf({ ...input, lookup: { kind: 'absent', tier: 'key_service' } })).toBe('key_invalid')
      expect(reasonOf({ ...input, lookup: { kind: 'unknown' } })).toBe('key_store_unavailable')
    },
  )

  it('is 503 for an unknown lookup, and without a lookup, never "no such key"', () => {
    expect(reasonOf({ ...GOOD, lookup: { kind: 'unknown' } })).toBe('key_store_unavailable')
    expect(reasonOf({ ...GOOD, lookup: { kind: 'limited' } })).toBe('lookup_limited')
  })

  it('permits every usable key on a route without a scope', () => {
    const input = { ...GOOD, match: matchOf('auth'), query: '', lookup: found({ scopes: [] }) }
    expect(reasonOf(input)).toBe('permitted')
  })

  it('names the missing scope', () => {
    expect(authorize(failing(['scope_missing']))).toMatchObject({
      scope: 'files:read',
      detail: 'The API key lacks the scope files:read',
    })
  })

  it.each(['files:rea', 'files:reads', 'FILES:READ', 'files:*', '*', 'files:read workspace:read'])(
    'takes no other scope for the one that is needed: %s',
    scope => {
      expect(reasonOf({ ...GOOD, lookup: found({ scopes: [scope] }) })).toBe('scope_missing')
    },
  )

  it.each(['ws_a', 'WS_A', 'ws_A ', 'ws_', 'ws_AA', '%77s_A', 'ws_А', '', 'ws_A\0'])(
    'takes no other text for the key’s workspace: %j',
    workspaceId => {
      expect(reasonOf({ ...GOOD, match: matchOf('files', { workspaceId }) })).toBe('other_workspace')
    },
  )

  it('is the same whether the other workspace exists or not', () => {
    const answers = ['ws_B', 'ws_Z'].map(workspaceId =>
      authorize({ ...GOOD, match: matchOf('files', { workspaceId }) }),
    )
    expect(answers[0]).toEqual(answers[1])
  })
})

describe('the client’s address', () => {
  const allowedCidrs = ['192.0.2.0/24', '2001:db8::/32']
  it.each(['192.0.2.1', '::ffff:192.0.2.1', '2001:db8::5'])(
    'in an allowed network may use the key: %s',
    address => {
      const lookup = found({ allowedCidrs })
      expect(reasonOf({ ...GOOD, lookup, clientAddress: address })).toBe('permitted')
    },
  )

  it.each(['192.0.3.1', '::ffff:192.0.3.1', '2001:db9::5', '', 'unknown'])(
    'elsewhere may not: %s',
    address => {
      const lookup = found({ allowedCidrs })
      expect(authorize({ ...GOOD, lookup, clientAddress: address })).toMatchObject({
        reason: 'address_not_allowed',
        detail: `The API key must not be used from ${address}`,
      })
    },
  )

  it('does not matter to a key without networks', () => {
    expect(reasonOf({ ...GOOD, clientAddress: '' })).toBe('permitted')
  })
})

describe('expiry', () => {
  const expiresAtMs = RECORD.expiresAtMs

  it.each([
    ['a millisecond before', expiresAtMs - 1, 'permitted'],
    ['at exactly its instant', expiresAtMs, 'key_expired'],
    ['a millisecond after', expiresAtMs + 1, 'key_expired'],
    ['by a clock that returns NaN', Number.NaN, 'key_expired'],
  ])('is checked at each request: %s', (_, nowMs, reason) => {
    expect(reasonOf({ ...GOOD, nowMs })).toBe(reason)
  })

  it('does not apply to a revoked key, which is rejected even before the time of its revocation', () => {
    const lookup = found({ revokedAtMs: NOW_MS + 1000 })
    expect(reasonOf({ ...GOOD, lookup })).toBe('key_revoked')
    expect(reasonOf({ ...GOOD, lookup: found({ revokedAtMs: 0 }) })).toBe('key_revoked')
  })

  it('is checked in the same way for records from memory, Redis and the key service', () => {
    for (const tier of ['memory', 'redis', 'key_service'] as const) {
      const lookup: Lookup = { kind: 'found', grant: grantOf(exampleRecord({ expiresAtMs: NOW_MS })), tier }
      expect(reasonOf({ ...GOOD, lookup })).toBe('key_expired')
    }
  })
})
