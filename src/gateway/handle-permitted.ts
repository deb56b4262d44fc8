import type { Permit } from '../domain/authorize.ts'
import { type Denial, denied } from '../domain/denial.ts'
import { holdsStrayKey, strayKeysOf } from '../domain/key/stray-keys.ts'
import { writeBuffered } from '../http/buffered-response.ts'
import type { ClientRequest } from '../upstream/client-request.ts'
import type { Forward } from '../upstream/forward.ts'
import type { CredentialScheme } from './credential.ts'
import { describeKey } from './describe-key.ts'
import type { Gateway } from './handle-request.ts'

const KEY_IN_TARGET = denied('invalid_query', { detail: 'Send the API key in the Authorization header only' })

/** Forwards a request, or responds with the description of its key if the route is the gateway's own. */
export function createPermittedHandler(forward: Forward): Gateway['handlePermitted'] {
  return (request, permit) => {
    const { response, observation } = request
    if (permit.route.answeredBy === 'upstream') forward(request, permit)
    else observation.responseBytes = writeBuffered(response, describeKey(permit.grant), observation.requestId)
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
