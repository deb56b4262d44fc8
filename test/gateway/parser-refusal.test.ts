import { describe, expect, it } from 'vitest'
import { denied } from '../../src/domain/denial.ts'
import { refusalOf } from '../../src/gateway/denial-response.ts'
import { rawRefusalOf } from '../../src/gateway/parser-refusal.ts'
import { requestIdOf } from '../../src/gateway/request-id.ts'

describe('what Node’s parser refuses', () => {
  it.each([
    'malformed_request',
    'url_too_long',
    'headers_too_large',
    'request_timeout',
    'unknown_route',
  ] as const)('has the status, fields and body of every other answer, and closes: %s', reason => {
    const { bytes, status, requestId } = rawRefusalOf(reason)
    const [head = '', body] = bytes.split('\r\n\r\n')
    const [line, ...fields] = head.split('\r\n')
    const expected = refusalOf(denied(reason))
    expect(line).toMatch(new RegExp(`^HTTP/1\\.1 ${expected.status} [A-Z]`))
    expect(status).toBe(expected.status)
    expect(body).toBe(expected.body)
    const headers = Object.fromEntries(fields.map(field => field.split(': ')))
    expect(headers).toEqual({
      ...expected.headers,
      'x-request-id': requestId,
      'content-length': String(expected.body.length),
      date: expect.stringMatching(/GMT$/),
      connection: 'close',
    })
  })
})

describe('a request id', () => {
  it.each(['a', 'A-Z.0_9', 'x'.repeat(128)])('of the client is kept: %s', id => {
    expect(requestIdOf(id)).toBe(id)
  })

  it.each([
    [undefined],
    [''],
    // Two of them, as Node joins them.
    ['a, b'],
    ['a, a'],
    ['a b'],
    ['a\n'],
    ['é'],
    ['a"'],
    ['x'.repeat(129)],
  ])('is made anew for %j', given => {
    const id = requestIdOf(given)
    expect(id).toMatch(/^[0-9a-f-]{36}$/)
    expect(requestIdOf(given)).not.toBe(id)
  })
})
