import type { FastifyError } from 'fastify'
import { expect, test } from 'vitest'
import {
  AuditWriteError,
  DatabaseUnavailable,
  OutcomeUnknown,
} from '../../src/console/platform/database/database-unavailable.ts'
import { ApiError } from '../../src/console/platform/http/api-error.ts'
import { explainError, explainFault } from '../../src/console/platform/http/explain-error.ts'
import { UnstorableText } from '../../src/console/platform/http/read-bodies.ts'

const RETRY = { 'retry-after': '2' }
const SEE_LOG = 'See the console log under this request id'
const lost = new DatabaseUnavailable('unreachable', 'reset', { isOutcomeUnknown: true })
const down = new DatabaseUnavailable('unreachable', 'refused')

/** As Fastify and its plugins throw them. */
const thrown = (statusCode: number, code = ''): FastifyError =>
  Object.assign(new Error('x'), { statusCode, code, name: 'FastifyError' })

// The function takes any error; its type names what Fastify throws.
const explained = (error: Error, schema = {}) => explainError(error as FastifyError, schema)
const seen = ({ status, body, headers }: ApiError) => ({ status, ...body, headers })

test.each<[string, Error, object]>([
  [
    'CSRF',
    thrown(403),
    { status: 403, code: 'forbidden', error: 'The CSRF token is missing or belongs to another session' },
  ],
  [
    'a large body',
    thrown(413),
    { status: 413, code: 'request_too_large', error: 'The request body is too large' },
  ],
  [
    'a long segment',
    thrown(414),
    { status: 400, code: 'invalid_request', error: 'A path segment is too long' },
  ],
  [
    'another type',
    thrown(415),
    { status: 415, code: 'unsupported_media_type', error: 'The request body must be application/json' },
  ],
  ['a body', thrown(400), { status: 400, code: 'invalid_request', error: 'The request body cannot be read' }],
  [
    'a bad URL',
    thrown(400, 'FST_ERR_BAD_URL'),
    {
      status: 400,
      code: 'invalid_request',
      error: 'The path has a percent sign that begins no encoded character',
    },
  ],
  [
    'no JSON',
    thrown(400, 'FST_ERR_CTP_INVALID_JSON_BODY'),
    { status: 400, code: 'invalid_request', error: 'The request body is not JSON' },
  ],
  [
    'another length',
    thrown(400, 'FST_ERR_CTP_INVALID_CONTENT_LENGTH'),
    {
      status: 400,
      code: 'invalid_request',
      error: 'The request body is not as long as the Content-Length field says',
    },
  ],
  [
    'text that no database stores',
    new UnstorableText('x'),
    {
      ...{ status: 400, code: 'invalid_request' },
      error: 'The URL or the request body holds NUL, half a surrogate pair, or bytes that are not UTF-8',
    },
  ],
  [
    'a mistake of ours',
    new Error('x'),
    {
      status: 500,
      code: 'internal_error',
      error: 'Internal console error; see its log under this request id',
    },
  ],
  [
    'a database that is down',
    down,
    {
      ...{ status: 503, code: 'database_unavailable', headers: RETRY },
      error: `The database is unavailable; try again later. ${SEE_LOG}`,
    },
  ],
  [
    'an answer to a commit that was lost',
    new Error('x', { cause: lost }),
    {
      ...{ status: 503, code: 'database_unavailable', headers: RETRY },
      error: `The database did not confirm the change; it may or may not have been made. ${SEE_LOG}`,
    },
  ],
  [
    'an audit entry that was not written',
    new AuditWriteError(down),
    {
      ...{ status: 503, code: 'database_unavailable', headers: RETRY },
      error: `The database did not make the change; try again later. ${SEE_LOG}`,
    },
  ],
  [
    'a key that may have been issued',
    new OutcomeUnknown({ keyId: 'key_1', workspaceId: 'ws_1' }, lost),
    {
      ...{ status: 503, code: 'database_unavailable', headers: RETRY, keyId: 'key_1' },
      error:
        'The database did not confirm the change of key key_1, which may or may not have been made. Read the key before you try again; if it was issued, revoke it, since its secret is lost',
    },
  ],
  [
    'a token that may have been issued',
    new OutcomeUnknown({ tokenId: 'tok_1' }, lost),
    {
      ...{ status: 503, code: 'database_unavailable', headers: RETRY, tokenId: 'tok_1' },
      error:
        'The database did not confirm the change of token tok_1, which may or may not have been made. Revoke the token before you try again: its secret is lost',
    },
  ],
  [
    'something that may have been made',
    new OutcomeUnknown({}, lost),
    {
      ...{ status: 503, code: 'database_unavailable', headers: RETRY },
      error: `The database did not confirm the change; it may or may not have been made. ${SEE_LOG}`,
    },
  ],
])('an error says what failed, and what to do: %s', (_, error, expected) => {
  expect(seen(explained(error))).toEqual({ headers: {}, ...expected })
})

test('what a handler has refused stays as it is', () => {
  const refusal = new ApiError('conflict', 'x', { etag: '"1"' }, 'name', { keyId: 'key_1' })
  expect(explained(refusal)).toBe(refusal)
})

test.each<[object, string | undefined, string, string | undefined]>([
  [{ params: { requiredProperties: ['name', 'other'] } }, 'body', 'name must be a name', 'name'],
  [{ params: {}, instancePath: '/name/0' }, 'body', 'name must be a name', 'name'],
  [{ params: {}, instancePath: '/other' }, 'body', 'other must be in a valid format', 'other'],
  [{ params: {}, instancePath: '/limit' }, 'querystring', 'limit must be a number', 'limit'],
  [{ params: {}, instancePath: '' }, 'body', 'The body must be a JSON object', undefined],
  [{ params: { additionalProperties: ['extra'] } }, 'body', 'Unknown field extra', 'extra'],
  [{ params: { additionalProperties: ['extra'] } }, undefined, 'Unknown field extra', 'extra'],
  [{ params: { additionalProperties: ['extra'] } }, 'querystring', 'Unknown query parameter extra', 'extra'],
  [
    { params: { additionalProperties: ['a'.repeat(32)] } },
    'body',
    `Unknown field ${'a'.repeat(32)}`,
    'a'.repeat(32),
  ],
  // It may be a key.
  [{ params: { additionalProperties: ['a'.repeat(33)] } }, 'body', 'Unknown field', undefined],
  [{ params: { additionalProperties: ['7up'] } }, 'querystring', 'Unknown query parameter', undefined],
  [{ params: { additionalProperties: ['a-b'] } }, 'body', 'Unknown field', undefined],
])('a request that its schema refuses: %j in the %s', (violation, validationContext, error, field) => {
  const schema = {
    body: { properties: { name: { description: 'a name' } } },
    querystring: { properties: { limit: { description: 'a number' } } },
  }
  const { status, body } = explained(
    Object.assign(thrown(400), { validation: [{ instancePath: '', ...violation }], validationContext }),
    schema,
  )
  expect([status, body]).toEqual([
    400,
    { code: 'invalid_request', error, ...(field === undefined ? {} : { field }) },
  ])
})

test.each([
  ['malformed_request', 400, 'invalid_request', 'The request is not valid HTTP/1.1'],
  ['unknown_route', 404, 'not_found', 'No resource at this path'],
  ['request_timeout', 408, 'invalid_request', 'The request was not received in time'],
  [
    'expectation_failed',
    417,
    'invalid_request',
    'The Expect field is not supported, other than 100-continue',
  ],
  ['url_too_long', 414, 'request_too_large', 'The URL is too long'],
  ['headers_too_large', 431, 'request_too_large', 'The headers are too large'],
] as const)('bytes that are no request are answered too: %s', (fault, status, code, error) => {
  const [head = '', body = ''] = explainFault(fault, 'r-1').split('\r\n\r\n')
  const lines = head.toLowerCase().split('\r\n')
  expect(lines[0]).toMatch(new RegExp(`^http/1\\.1 ${status} `))
  expect(lines).toEqual(
    expect.arrayContaining([
      ...['content-type: application/json; charset=utf-8', 'cache-control: no-store'],
      ...['x-content-type-options: nosniff', 'x-request-id: r-1'],
    ]),
  )
  expect(JSON.parse(body)).toEqual({ code, error })
  expect(JSON.parse(explainFault(fault, 'r-1', 'why').split('\r\n\r\n')[1] ?? '')).toEqual({
    code,
    error: 'why',
  })
})
