import type { KeyGrant } from '../domain/key/key-record.ts'
import {
  type BufferedResponse,
  bufferedResponse,
  toFieldList,
  writeBuffered,
} from '../http/buffered-response.ts'
import { asByteString, toByteString } from '../http/byte-string.ts'
import type { Forward } from '../upstream/forward.ts'
import type { Responder } from './handle-request.ts'

/** Forwards a request, or responds with the description of its key if the route is the gateway's own. */
export function createPermittedHandler(forward: Forward): Responder['handlePermitted'] {
  return (request, permit) => {
    const { response, observation } = request
    if (permit.route.answeredBy === 'upstream') forward(request, permit)
    else observation.responseBytes = writeBuffered(response, describeKey(permit.grant), observation.requestId)
  }
}

const FIELDS = toFieldList({
  'content-type': 'application/json; charset=utf-8',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
})

/** The response to `GET /api/v1/auth`. */
export function describeKey({ workspaceId, scopes, id, hint, expiresAtMs }: KeyGrant): BufferedResponse {
  const expiresAt = new Date(expiresAtMs).toISOString()
  // Only the hint can hold non-ASCII characters. Converted first, it leaves one byte per character in the whole body,
  // which halves the time of JSON and of the write.
  const body = JSON.stringify({ workspaceId, scopes, keyId: id, hint: toByteString(hint), expiresAt })
  return bufferedResponse(200, FIELDS, asByteString(body))
}
