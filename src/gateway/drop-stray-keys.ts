import type { IncomingMessage } from 'node:http'
import { holdsStrayKey, isAuthorization, strayKeysOf } from '../domain/key/stray-keys.ts'

/**
 * Deletes from a request's headers each field except `Authorization` that holds a key, so that the key reaches no
 * upstream, log or trace. Call it before the headers are read.
 */
export function dropStrayKeys(request: IncomingMessage, prefix: string | null): void {
  const { rawHeaders } = request
  const keys = strayKeysOf(rawHeaders, prefix)
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (isAuthorization(rawHeaders[at]) || !holdsStrayKey(rawHeaders[at + 1] ?? '', keys)) continue
    delete request.headers[rawHeaders[at]?.toLowerCase() ?? '']
  }
}
