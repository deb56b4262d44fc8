import type { IncomingMessage } from 'node:http'
import { holdsStrayKey, isAuthorization, strayKeysOf } from '../domain/key/stray-keys.ts'

/**
 * Takes out of a request's headers every field but `Authorization` that holds a key: it counts as not sent, so that it
 * reaches no upstream, log or trace. To be called before anything reads them.
 */
export function dropStrayKeys(request: IncomingMessage, prefix: string | null): void {
  const { rawHeaders } = request
  const keys = strayKeysOf(rawHeaders, prefix)
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (isAuthorization(rawHeaders[at]) || !holdsStrayKey(rawHeaders[at + 1] ?? '', keys)) continue
    delete request.headers[rawHeaders[at]?.toLowerCase() ?? '']
  }
}
