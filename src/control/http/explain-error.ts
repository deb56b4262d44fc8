import type { FastifyError, FastifySchemaValidationError } from 'fastify'
import { AuditWriteError } from '../registry/database/audit-rows.ts'
import { EXPECTED } from './admin-schemas.ts'
import { ApiError, invalidField } from './api-error.ts'

/** A field's name is repeated to whoever sent it only if it looks like one: a key pasted there does not. */
const PLAIN_NAME = /^[A-Za-z][A-Za-z0-9_]{0,31}$/

/** Of a database that breaks off while it commits nobody knows what it did. */
const UNCONFIRMED =
  'The database did not confirm the change: it was not made, or only its confirmation was lost. The console’s log ' +
  'says why under the request id'

/** What a failure looks like from outside. Whatever is not known to be the caller's is a fault of ours. */
export function explainError(error: FastifyError | ApiError): ApiError {
  if (error instanceof ApiError) return error
  if (error instanceof AuditWriteError) return new ApiError('database_unavailable', UNCONFIRMED)
  const [violation] = error.validation ?? []
  if (violation !== undefined) return explainViolation(violation, error.validationContext ?? 'body')
  switch (error.statusCode) {
    case 403:
      return new ApiError('forbidden', 'The token against forged requests is missing or not of this session')
    case 413:
      return new ApiError('request_too_large', 'The body is too large')
    case 414:
      return new ApiError('invalid_request', 'A part of the path is too long')
    case 415:
      return new ApiError('unsupported_media_type', 'The body must be application/json')
    case 400:
      return new ApiError('invalid_request', 'The request cannot be read: its path or its body is malformed')
    default:
      return new ApiError('internal_error', 'The console failed; its log says why under the request id')
  }
}

function explainViolation(violation: FastifySchemaValidationError, context: string): ApiError {
  const { additionalProperty, missingProperty } = violation.params
  if (typeof additionalProperty === 'string') return unknownField(additionalProperty, context)
  const field = typeof missingProperty === 'string' ? missingProperty : violation.instancePath.split('/')[1]
  if (field === undefined) return invalidField('The body', 'a JSON object')
  return invalidField(field, EXPECTED[`${context}/${field}`] ?? EXPECTED[field] ?? 'of another form')
}

function unknownField(name: string, context: string): ApiError {
  const kind = context === 'querystring' ? 'query parameter' : 'field'
  const shown = PLAIN_NAME.test(name) ? ` ${name}` : ''
  return new ApiError('invalid_request', `Unknown ${kind}${shown}`)
}
