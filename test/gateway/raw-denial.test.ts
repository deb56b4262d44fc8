import { describe, expect, it } from 'vitest'
import { denied } from '../../src/domain/denial.ts'
import { chooseRequestId } from '../../src/gateway/request-head.ts'
import { createErrorResponse, createRawDenial } from '../../src/gateway/responses.ts'

describe('a request that Node’s parser rejects', () => {
  it.each([
    'malformed_request',
    'url_too_long',
    'headers_too_large',
    'request_timeout',
    'unknown_route',
  ] as const)('gets status, fields and body of a normal denial, and the connection closes: %s', reason => {
    const { bytes, status, requestId } = createRawDenial(reason)
    const [head = '', body] = bytes.split('\r\n\r\n')
    const [line, ...fields] = head.split('\r\n')
    const expected = createErrorResponse(denied(reason))
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
  it.each(['a', 'A-Z.0_9', 'x'.repeat(128)])('of the client is used: %s', id => {
    expect(chooseRequestId(id)).toBe(id)
  })

  it.each([
    [undefined],
    [''],
    // Two fields, as Node joins them.
    ['a, b'],
    ['a, a'],
    ['a b'],
    ['a\n'],
    ['é'],
    ['a"'],
    ['x'.repeat(129)],
  ])('is generated in place of %j', sent => {
    const id = chooseRequestId(sent)
    expect(id).toMatch(/^[0-9a-f-]{36}$/)
    expect(chooseRequestId(sent)).not.toBe(id)
  })
})
