import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DENIAL_REASONS, type DenialReason, denialRow, denied } from '../../src/domain/denial.ts'
import { createErrorResponse } from '../../src/gateway/responses.ts'

/** What integrators rely on: status, code, and whether the response has `Retry-After`. */
const EXPECTED: Readonly<
  Record<DenialReason, readonly [status: number, code: string, hasRetryAfter: boolean]>
> = {
  malformed_request: [400, 'invalid_request', false],
  expectation_failed: [417, 'invalid_request', false],
  request_timeout: [408, 'invalid_request', false],
  body_not_allowed: [400, 'invalid_request', false],
  invalid_query: [400, 'invalid_request', false],
  key_missing: [401, 'key_missing', false],
  key_malformed: [401, 'key_invalid', false],
  key_invalid: [401, 'key_invalid', false],
  key_expired: [401, 'key_expired', false],
  key_revoked: [401, 'key_revoked', false],
  key_suspended: [401, 'key_suspended', false],
  address_not_allowed: [403, 'address_not_allowed', false],
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
  lookup_limited: [503, 'key_store_unavailable', true],
  overloaded: [503, 'overloaded', true],
  upstream_queue_full: [503, 'overloaded', true],
  workspace_overloaded: [503, 'overloaded', true],
  draining: [503, 'overloaded', true],
  upstream_timeout: [504, 'upstream_timeout', false],
}
const REASONS = Object.keys(EXPECTED) as DenialReason[]

describe('the response to a denial', () => {
  it.each(REASONS.map(reason => [reason, ...EXPECTED[reason]] as const))(
    '%s is %d %s',
    (reason, status, code, hasRetryAfter) => {
      const response = createErrorResponse(denied(reason))
      const body = JSON.parse(response.body) as Record<string, unknown>
      expect(response.status).toBe(status)
      expect(Object.keys(body)).toEqual(['code', 'error'])
      expect(body['code']).toBe(code)
      expect(body['error']).toMatch(/^[A-Z].{8,}[^.]$/)
      expect(response.headers['retry-after'] !== undefined).toBe(hasRetryAfter)
      expect(response.headers['retry-after'] ?? '1').toMatch(/^[1-9]\d*$/)
    },
  )

  it('is tested for each denial reason: add a new one to EXPECTED above', () => {
    expect([...DENIAL_REASONS].sort()).toEqual([...REASONS].sort())
  })

  it('is the same for a key of the wrong form and an unknown key', () => {
    expect(createErrorResponse(denied('key_malformed'))).toEqual(createErrorResponse(denied('key_invalid')))
  })

  it('reveals no address, path, stack or product of the system', () => {
    for (const reason of REASONS) {
      const { body, headers } = createErrorResponse(denied(reason))
      expect(body + JSON.stringify(headers)).not.toMatch(
        /redis|sqlite|undici|node|https?:|\d+\.\d+\.\d+|\/src\/|\bat \w+ \(/i,
      )
    }
  })

  it('is JSON that caches do not store and browsers do not sniff', () => {
    for (const reason of REASONS) {
      expect(createErrorResponse(denied(reason)).headers).toMatchObject({
        'content-type': 'application/json; charset=utf-8',
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
      })
    }
  })
})

describe('the 404', () => {
  it('has the same bytes for an unknown path, another workspace and a 404 of the upstream', () => {
    const [first, ...others] = (['unknown_route', 'other_workspace', 'upstream_not_found'] as const).map(
      reason => {
        const response = createErrorResponse(denied(reason))
        return JSON.stringify([
          response,
          Object.entries(response.headers),
          denialRow(reason).closesConnection,
        ])
      },
    )
    expect(others).toEqual([first, first])
  })
})

describe('challenges', () => {
  const challengeOf = (...denial: Parameters<typeof denied>) =>
    createErrorResponse(denied(...denial)).headers['www-authenticate']

  it('have no error if no key was sent', () => {
    expect(challengeOf('key_missing')).toBe('Bearer realm="postern"')
  })

  it.each(['key_invalid', 'key_expired', 'key_revoked', 'key_suspended'] as const)(
    'hold the error and its description: %s',
    reason => {
      const { error } = JSON.parse(createErrorResponse(denied(reason)).body) as { error: string }
      expect(challengeOf(reason)).toBe(
        `Bearer realm="postern", error="invalid_token", error_description="${error}"`,
      )
      // RFC 6750, section 3: the characters of a description.
      expect(error).toMatch(/^[\x20-\x21\x23-\x5b\x5d-\x7e]+$/)
    },
  )

  it('name the missing scope', () => {
    expect(challengeOf('scope_missing', { scope: 'files:read' })).toBe(
      'Bearer realm="postern", error="insufficient_scope", scope="files:read"',
    )
  })

  it('are sent with 401 and for a missing scope only, and Allow with 405 only', () => {
    for (const reason of REASONS) {
      const { status, headers } = createErrorResponse(denied(reason))
      const isChallenged = status === 401 || reason === 'scope_missing'
      expect(headers['www-authenticate'] !== undefined, reason).toBe(isChallenged)
      expect(headers['allow'], reason).toBe(status === 405 ? 'GET' : undefined)
    }
  })
})

describe('a denial with details of its request', () => {
  it('changes text and Retry-After of this response only', () => {
    const before = createErrorResponse(denied('invalid_query'))
    const response = createErrorResponse(denied('invalid_query', { detail: 'limit must be a whole number' }))
    expect(JSON.parse(response.body)).toEqual({
      code: 'invalid_request',
      error: 'limit must be a whole number',
    })
    expect(
      createErrorResponse(denied('upstream_unavailable', { retryAfterSeconds: 17 })).headers['retry-after'],
    ).toBe('17')
    expect(createErrorResponse(denied('upstream_unavailable')).headers['retry-after']).toBe('1')
    expect(createErrorResponse(denied('invalid_query'))).toEqual(before)
  })

  it('is valid JSON with any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary-ascii' }), detail => {
        expect(JSON.parse(createErrorResponse(denied('invalid_query', { detail })).body)).toEqual({
          code: 'invalid_request',
          error: detail,
        })
      }),
    )
  })
})

it('the connection closes after ambiguous input, an internal error, and while draining', () => {
  const closing = REASONS.filter(reason => denialRow(reason).closesConnection === true)
  expect(closing.sort()).toEqual([
    'body_not_allowed',
    'draining',
    'expectation_failed',
    'headers_too_large',
    'internal_error',
    'malformed_request',
    'request_timeout',
    'url_too_long',
  ])
})

it('a full queue of the gateway counts as a failure of the gateway, not of the upstream', () => {
  expect(denialRow('upstream_queue_full').responsible).toBe('gateway')
  expect(DENIAL_REASONS.filter(reason => denialRow(reason).responsible === 'upstream')).toEqual([
    'upstream_error',
    'upstream_unavailable',
    'upstream_timeout',
    'upstream_not_found',
  ])
})

it('only denials caused by overload or a flood of unknown keys are delayed', () => {
  expect(DENIAL_REASONS.filter(reason => denialRow(reason).delayedUnderOverload === true)).toEqual([
    'lookup_limited',
    'overloaded',
    'upstream_queue_full',
    'workspace_overloaded',
  ])
})
