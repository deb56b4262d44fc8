import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DENIAL_REASONS, type DenialReason, denialRow, denied } from '../../src/domain/denial.ts'
import { refusalOf } from '../../src/gateway/denial-response.ts'

/** Section 2 of the contract, written out: status, code, and whether the client is told to wait. */
const EXPECTED: Readonly<Record<DenialReason, readonly [status: number, code: string, wait: boolean]>> = {
  malformed_request: [400, 'invalid_request', false],
  request_timeout: [408, 'invalid_request', false],
  body_not_allowed: [400, 'invalid_request', false],
  invalid_query: [400, 'invalid_request', false],
  key_missing: [401, 'key_missing', false],
  key_malformed: [401, 'key_invalid', false],
  key_invalid: [401, 'key_invalid', false],
  key_expired: [401, 'key_expired', false],
  key_revoked: [401, 'key_revoked', false],
  key_suspended: [401, 'key_suspended', false],
  scope_missing: [403, 'scope_missing', false],
  unknown_route: [404, 'not_found', false],
  other_workspace: [404, 'not_found', false],
  upstream_not_found: [404, 'not_found', false],
  method_not_allowed: [405, 'method_not_allowed', false],
  url_too_long: [414, 'request_too_large', false],
  headers_too_large: [431, 'request_too_large', false],
  rate_limited: [429, 'rate_limited', true],
  internal_error: [500, 'internal_error', false],
  upstream_error: [502, 'upstream_error', false],
  upstream_unavailable: [503, 'upstream_unavailable', true],
  key_store_unavailable: [503, 'key_store_unavailable', true],
  overloaded: [503, 'overloaded', true],
  upstream_queue_full: [503, 'overloaded', true],
  workspace_overloaded: [503, 'overloaded', true],
  draining: [503, 'overloaded', true],
  upstream_timeout: [504, 'upstream_timeout', false],
}
const REASONS = Object.keys(EXPECTED) as DenialReason[]

describe('the table of refusals', () => {
  it.each(REASONS.map(reason => [reason, ...EXPECTED[reason]] as const))(
    '%s is %d %s',
    (reason, status, code, wait) => {
      const refusal = refusalOf(denied(reason))
      const body = JSON.parse(refusal.body) as Record<string, unknown>
      expect(refusal.status).toBe(status)
      expect(Object.keys(body)).toEqual(['code', 'error'])
      expect(body['code']).toBe(code)
      expect(body['error']).toMatch(/^[A-Z].{8,}[^.]$/)
      expect(refusal.headers['retry-after'] !== undefined).toBe(wait)
      expect(refusal.headers['retry-after'] ?? '1').toMatch(/^[1-9]\d*$/)
    },
  )

  it('expects an answer for each denial reason: add a new one to EXPECTED above', () => {
    expect([...DENIAL_REASONS].sort()).toEqual([...REASONS].sort())
  })

  it('answers a key of the wrong form and an unknown key alike', () => {
    expect(refusalOf(denied('key_malformed'))).toEqual(refusalOf(denied('key_invalid')))
  })

  it('says nothing of what is behind: no address, path, stack or product', () => {
    for (const reason of REASONS) {
      const { body, headers } = refusalOf(denied(reason))
      expect(body + JSON.stringify(headers)).not.toMatch(
        /redis|sqlite|undici|node|https?:|\d+\.\d+\.\d+|\/src\/|\bat \w+ \(/i,
      )
    }
  })

  it('is JSON that no cache keeps and no browser guesses at', () => {
    for (const reason of REASONS) {
      expect(refusalOf(denied(reason)).headers).toMatchObject({
        'content-type': 'application/json; charset=utf-8',
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
      })
    }
  })
})

describe('the only 404', () => {
  it('is the same, byte for byte, for an unknown path, another workspace and the upstream’s own', () => {
    const [first, ...others] = (['unknown_route', 'other_workspace', 'upstream_not_found'] as const).map(
      reason => {
        const refusal = refusalOf(denied(reason))
        return JSON.stringify([refusal, Object.entries(refusal.headers), denialRow(reason).closesConnection])
      },
    )
    expect(others).toEqual([first, first])
  })
})

describe('challenges', () => {
  const challengeOf = (...denial: Parameters<typeof denied>) =>
    refusalOf(denied(...denial)).headers['www-authenticate']

  it('are bare where no key was sent', () => {
    expect(challengeOf('key_missing')).toBe('Bearer realm="postern"')
  })

  it.each(['key_invalid', 'key_expired', 'key_revoked', 'key_suspended'] as const)(
    'name the error with a description: %s',
    reason => {
      const { error } = JSON.parse(refusalOf(denied(reason)).body) as { error: string }
      expect(challengeOf(reason)).toBe(
        `Bearer realm="postern", error="invalid_token", error_description="${error}"`,
      )
      // RFC 6750, section 3: what may stand in a description.
      expect(error).toMatch(/^[\x20-\x21\x23-\x5b\x5d-\x7e]+$/)
    },
  )

  it('name the scope that is missing', () => {
    expect(challengeOf('scope_missing', { scope: 'files:read' })).toBe(
      'Bearer realm="postern", error="insufficient_scope", scope="files:read"',
    )
  })

  it('stand in 401 and 403 alone, as Allow does in 405', () => {
    for (const reason of REASONS) {
      const { status, headers } = refusalOf(denied(reason))
      expect(headers['www-authenticate'] !== undefined, reason).toBe(status === 401 || status === 403)
      expect(headers['allow'], reason).toBe(status === 405 ? 'GET' : undefined)
    }
  })
})

describe('what a refusal is told of the single request', () => {
  it('is the text and the time to wait, and changes no other answer', () => {
    const before = refusalOf(denied('invalid_query'))
    const refusal = refusalOf(denied('invalid_query', { detail: 'limit must be a whole number' }))
    expect(JSON.parse(refusal.body)).toEqual({
      code: 'invalid_request',
      error: 'limit must be a whole number',
    })
    expect(refusalOf(denied('upstream_unavailable', { retryAfterSeconds: 17 })).headers['retry-after']).toBe(
      '17',
    )
    expect(refusalOf(denied('upstream_unavailable')).headers['retry-after']).toBe('1')
    expect(refusalOf(denied('invalid_query'))).toEqual(before)
  })

  it('is JSON whatever the text is', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary-ascii' }), detail => {
        expect(JSON.parse(refusalOf(denied('invalid_query', { detail })).body)).toEqual({
          code: 'invalid_request',
          error: detail,
        })
      }),
    )
  })
})

it('a connection is not read on after bytes that cannot be trusted, a fault of ours, or while shutting down', () => {
  const closing = REASONS.filter(reason => denialRow(reason).closesConnection === true)
  expect(closing.sort()).toEqual([
    'body_not_allowed',
    'draining',
    'headers_too_large',
    'internal_error',
    'malformed_request',
    'request_timeout',
    'url_too_long',
  ])
})

it('the gateway’s own queue being full counts as the gateway’s fault, not the upstream’s', () => {
  expect(denialRow('upstream_queue_full').responsible).toBe('gateway')
  expect(DENIAL_REASONS.filter(reason => denialRow(reason).responsible === 'upstream')).toEqual([
    'upstream_error',
    'upstream_unavailable',
    'upstream_timeout',
    'upstream_not_found',
  ])
})

it('only refusals under overload are delayed', () => {
  expect(DENIAL_REASONS.filter(reason => denialRow(reason).delayedUnderOverload === true)).toEqual([
    'overloaded',
    'upstream_queue_full',
    'workspace_overloaded',
  ])
})
