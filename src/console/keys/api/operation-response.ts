import type { FastifyReply, FastifyRequest } from 'fastify'
import { ApiError, invalidField } from '../../platform/http/api-error.ts'
import { type AcceptedVersions, parseIfMatch } from '../../platform/http/if-match.ts'
import { noSuchKey } from '../../platform/http/request-parameters.ts'
import type { OperationRejection, OperationSuccess } from '../operations/run-operation.ts'

/** @throws ApiError if the operation was rejected */
export function requireSuccess(
  result: OperationSuccess | OperationRejection,
  request: FastifyRequest,
  reply: FastifyReply,
): OperationSuccess {
  if (result.kind !== 'done') throw toApiError(result)
  request.keyId = result.record.id
  if (result.replayed) void reply.header('idempotency-replayed', 'true')
  return result
}

/** The entity tag of a key (RFC 9110, section 8.8.3): its version, which its edits must name. */
export function setVersionTag(reply: FastifyReply, { version }: { readonly version: number }): void {
  void reply.header('etag', tagOf(version))
}

/** @returns the versions that If-Match names */
export function readIfMatch({ headers }: FastifyRequest): AcceptedVersions {
  const sent = headers['if-match']
  if (sent === undefined) {
    throw new ApiError(
      'precondition_required',
      'Send If-Match with the version of the key that you have read, such as If-Match: "3"',
      {},
      'If-Match',
    )
  }
  const versions = parseIfMatch(sent)
  if (versions === null)
    throw invalidField('If-Match', 'a version in quotes, such as "3", a list of them, or *')
  return versions
}

function toApiError(rejection: OperationRejection): ApiError {
  switch (rejection.kind) {
    case 'invalid':
      return invalidField(rejection.field, rejection.expected)
    case 'unknown_key':
      return noSuchKey()
    case 'not_active':
      return new ApiError('conflict', `Only an active key can be rotated; this one is ${rejection.state}`)
    case 'final':
      return new ApiError('conflict', `The key is ${rejection.state}, which is final; issue a new key`)
    case 'other_version':
      return otherVersion(rejection.version)
    case 'other_request':
      return new ApiError(
        'idempotency_mismatch',
        'This Idempotency-Key was used for a different request; use a new one',
      )
  }
}

function otherVersion(version: number): ApiError {
  const tag = tagOf(version)
  const text = `The key was changed meanwhile. Read it again and, if your edit still applies, send it with If-Match: ${tag}`
  return new ApiError('precondition_failed', text, { etag: tag }, 'If-Match')
}

function tagOf(version: number): string {
  return `"${version}"`
}
