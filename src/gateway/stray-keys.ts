import type { IncomingMessage } from 'node:http'
import type { Permit } from '../domain/authorize.ts'
import { type Denial, denied } from '../domain/denial.ts'
import { holdsStrayKey, isAuthorization, strayKeysOf } from '../domain/key/stray-keys.ts'
import type { ClientRequest } from '../upstream/client-request.ts'
import type { CredentialScheme } from './credentials.ts'

const KEY_IN_TARGET = denied('invalid_query', { detail: 'Send the API key in the Authorization header only' })

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

/** Upstreams write paths and queries to their logs, where a key must not appear. */
export function denyKeyInTarget(
  { prefix }: Pick<CredentialScheme, 'prefix'>,
  { message }: Pick<ClientRequest, 'message'>,
  { upstreamTarget }: Permit,
): Denial | null {
  return holdsStrayKey(upstreamTarget, strayKeysOf(message.rawHeaders, prefix)) ? KEY_IN_TARGET : null
}
