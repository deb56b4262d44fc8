import type { KeyGrant } from '../domain/key/key-record.ts'
import { type BufferedResponse, bufferedResponse, toFieldList } from '../http/buffered-response.ts'
import { asByteString, toByteString } from '../http/byte-string.ts'

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
