import type { FastifyError, FastifySchema, FastifySchemaValidationError } from 'fastify'
import { OWN_JSON_FIELDS, rawResponse } from '../../../http/buffered-response.ts'
import type { ConnectionFault } from '../../../http/guard-connections.ts'
import {
  AuditWriteError,
  findTrouble,
  OutcomeUnknown,
  type Unconfirmed,
} from '../database/database-unavailable.ts'
import { ApiError, invalidField } from './api-error.ts'
import { UnstorableText } from './read-bodies.ts'

/** A field name is echoed only if it looks like one: a key pasted in its place does not. */
const PLAIN_NAME = /^[A-Za-z][A-Za-z0-9_]{0,31}$/

/** What Fastify rejects, by the code of its error. It reads a body of JSON with an error without a code. */
const BAD_REQUESTS: Readonly<Record<string, string>> = {
  FST_ERR_BAD_URL: 'The path has a percent sign that begins no encoded character',
  FST_ERR_CTP_INVALID_JSON_BODY: 'The request body is not JSON',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'The request body is not as long as the Content-Length field says',
}

/** After a connection that broke, the next attempt has another. */
const RETRY = { 'retry-after': '2' }
const UNAVAILABLE = 'The database is unavailable; try again later. See the console log under this request id'
const NOT_MADE =
  'The database did not make the change; try again later. See the console log under this request id'
/** A connection that breaks during the commit leaves the outcome unknown. */
const UNCONFIRMED =
  'The database did not confirm the change; it may or may not have been made. See the console log under this request id'

const UNSTORABLE = 'The URL or the request body holds NUL, half a surrogate pair, or bytes that are not UTF-8'

/**
 * Turns any failure into a response. A failure that is not known to be the caller's fault is an internal error.
 * @param schema of the route; the description of each field completes `<field> must be …`
 */
export function explainError(error: FastifyError | ApiError, schema: FastifySchema = {}): ApiError {
  if (error instanceof ApiError) return error
  if (error instanceof UnstorableText) return new ApiError('invalid_request', UNSTORABLE)
  const unavailable = explainTrouble(error)
  if (unavailable !== null) return unavailable
  const [violation] = error.validation ?? []
  if (violation !== undefined) {
    const context = error.validationContext === 'querystring' ? 'querystring' : 'body'
    return explainViolation(violation, context, schema[context])
  }
  switch (error.statusCode) {
    case 403:
      return new ApiError('forbidden', 'The CSRF token is missing or belongs to another session')
    case 413:
      return new ApiError('request_too_large', 'The request body is too large')
    case 414:
      return new ApiError('invalid_request', 'A path segment is too long')
    case 415:
      return new ApiError('unsupported_media_type', 'The request body must be application/json')
    case 400:
      return new ApiError('invalid_request', BAD_REQUESTS[error.code] ?? 'The request body cannot be read')
    default:
      return new ApiError('internal_error', 'Internal console error; see its log under this request id')
  }
}

/** For the log. Where the database is the cause, its words say more than a stack, which each request would repeat. */
export function describeFailure(error: unknown): { readonly cause: string } | { readonly err: unknown } {
  if (error instanceof ApiError) return { cause: error.message }
  const trouble = findTrouble(error)
  if (trouble === null || trouble.isOutcomeUnknown) return { err: error }
  return { cause: trouble.message }
}

function explainTrouble(error: Error): ApiError | null {
  if (error instanceof OutcomeUnknown) {
    const { keyId, tokenId } = error.about
    const about = { ...(keyId && { keyId }), ...(tokenId && { tokenId }) }
    return new ApiError('database_unavailable', unconfirmedText(error.about), RETRY, undefined, about)
  }
  const trouble = findTrouble(error)
  if (trouble?.isOutcomeUnknown === true) return new ApiError('database_unavailable', UNCONFIRMED, RETRY)
  if (error instanceof AuditWriteError) return new ApiError('database_unavailable', NOT_MADE, RETRY)
  return trouble === null ? null : new ApiError('database_unavailable', UNAVAILABLE, RETRY)
}

function unconfirmedText({ keyId, tokenId }: Unconfirmed): string {
  if (keyId !== undefined) {
    return `The database did not confirm the change of key ${keyId}, which may or may not have been made. Read the key before you try again; if it was issued, revoke it, since its secret is lost`
  }
  if (tokenId !== undefined) {
    return `The database did not confirm the change of token ${tokenId}, which may or may not have been made. Revoke the token before you try again: its secret is lost`
  }
  return UNCONFIRMED
}

function explainViolation(
  violation: FastifySchemaValidationError,
  context: 'body' | 'querystring',
  schema: unknown,
): ApiError {
  const { additionalProperties, requiredProperties } = violation.params
  const unknown = firstName(additionalProperties)
  if (unknown !== undefined) return unknownField(unknown, context)
  const field = firstName(requiredProperties) ?? violation.instancePath.split('/')[1]
  if (field === undefined) return new ApiError('invalid_request', 'The body must be a JSON object')
  return invalidField(field, findExpectation(schema, field))
}

function firstName(names: unknown): string | undefined {
  const [name]: readonly unknown[] = Array.isArray(names) ? names : []
  return typeof name === 'string' ? name : undefined
}

/** What the field must be, in words that follow `must be`. */
export function findExpectation(schema: unknown, field: string): string {
  // Every schema of a query, body or entry is an object's, built with TypeBox.
  const { properties = {} } = schema as { properties?: Record<string, { description?: string }> }
  return properties[field]?.description ?? 'in a valid format'
}

function unknownField(name: string, context: string): ApiError {
  const kind = context === 'querystring' ? 'query parameter' : 'field'
  if (!PLAIN_NAME.test(name)) return new ApiError('invalid_request', `Unknown ${kind}`)
  return new ApiError('invalid_request', `Unknown ${kind} ${name}`, {}, name)
}

const FAULT_RESPONSES: Record<ConnectionFault, readonly [status: number, code: string, text: string]> = {
  malformed_request: [400, 'invalid_request', 'The request is not valid HTTP/1.1'],
  unknown_route: [404, 'not_found', 'No resource at this path'],
  request_timeout: [408, 'invalid_request', 'The request was not received in time'],
  expectation_failed: [417, 'invalid_request', 'The Expect field is not supported, other than 100-continue'],
  url_too_long: [414, 'request_too_large', 'The URL is too long'],
  headers_too_large: [431, 'request_too_large', 'The headers are too large'],
}

/** The response to bytes that never become a request. @param cause in place of the general text */
export function explainFault(fault: ConnectionFault, requestId: string, cause?: string): string {
  const [status, code, text] = FAULT_RESPONSES[fault]
  const headers = { ...OWN_JSON_FIELDS, 'x-request-id': requestId }
  return rawResponse(status, headers, JSON.stringify({ code, error: cause ?? text }))
}
