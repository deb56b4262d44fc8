import { describe, expect, test } from 'vitest'
import { DENIAL_REASONS, denialRow, denied } from '../../src/domain/denial.ts'
import { presentDenialTo } from '../../src/gateway/check-mode.ts'
import { createErrorResponse } from '../../src/gateway/responses.ts'

describe.each(DENIAL_REASONS)('%s', reason => {
  test('is 401 or 403 to nginx, which knows no other denial, with what restores it in headers', () => {
    const [own, nginx] = [createErrorResponse(denied(reason)), presentDenialTo('nginx')(denied(reason))]
    expect(nginx.status).toBe(own.status === 401 ? 401 : 403)
    expect(nginx.body).toBe('')
    expect(nginx.headers).toEqual({
      ...own.headers,
      'x-postern-status': String(own.status),
      'x-postern-code': denialRow(reason).code,
      'x-postern-body': own.body,
    })
  })

  test.each(['caddy', 'traefik', 'haproxy', 'envoy'] as const)('is to %s what it is to a client', proxy => {
    expect(presentDenialTo(proxy)(denied(reason))).toEqual(createErrorResponse(denied(reason)))
  })
})

test('a text that no header may hold reaches nginx as the same JSON', () => {
  const detail = 'Größe must be „klein“ or 😀'
  const body = presentDenialTo('nginx')(denied('invalid_query', { detail })).headers['x-postern-body'] ?? ''
  expect(body).toMatch(/^[\x20-\x7e]+$/)
  expect(JSON.parse(body)).toEqual({ code: 'invalid_request', error: detail })
})
