import { denialRow, denied } from '../../domain/denial.ts'
import { bufferedResponse, toFieldList, writeBuffered } from '../../http/buffered-response.ts'
import { NO_BYTES } from '../../http/byte-string.ts'
import type { Assertions } from '../../upstream/assertion/assertions.ts'
import type { ClientRequest, Deny } from '../../upstream/client-request.ts'
import { abortResponse } from '../../upstream/forward.ts'
import { identityHeaders } from '../../upstream/request-headers.ts'
import { errorResponseOf, type PresentDenial } from '../denial-response.ts'
import type { Responder } from '../handle-request.ts'
import type { ProxyKind } from './read-original.ts'

/**
 * Tells the proxy to forward a request, and with which headers.
 * @param assertions null if none are configured; otherwise each response has one
 */
export function createCheckHandler(assertions: Assertions | null, deny: Deny): Responder['handlePermitted'] {
  return (request, { grant, upstreamTarget }) => {
    const permit = (assertion: string | null) => writePermitted(request, identityHeaders(grant, assertion))
    const assertion = assertions === null ? null : assertions.assertionFor(grant, upstreamTarget)
    if (!(assertion instanceof Promise)) return permit(assertion)
    assertion.then(permit).catch((error: unknown) => {
      request.observation.fault = 'assertion'
      if (request.response.headersSent) abortResponse(request, error)
      else deny(request, denied('internal_error'))
    })
  }
}

function writePermitted(
  { response, observation }: ClientRequest,
  identity: Readonly<Record<string, string>>,
): void {
  // The proxy disconnected while the assertion was signed.
  if (response.destroyed) return
  const fields = toFieldList({ 'cache-control': 'no-store', ...identity })
  writeBuffered(response, bufferedResponse(200, fields, NO_BYTES), observation.requestId)
}

/** How a denial is answered to a kind of proxy: all but nginx pass any response on to their client. */
export function presentDenialTo(proxy: ProxyKind): PresentDenial {
  return proxy === 'nginx' ? presentToNginx : errorResponseOf
}

/**
 * nginx `auth_request` turns every status but 2xx, 401 and 403 into 500, and drops the body. Headers carry both, so that
 * its configuration can restore them.
 */
const presentToNginx: PresentDenial = denial => {
  const { status, headers, body } = errorResponseOf(denial)
  return {
    status: status === 401 ? 401 : 403,
    headers: {
      ...headers,
      'x-postern-status': String(status),
      'x-postern-code': denialRow(denial.reason).code,
      'x-postern-body': asciiOf(body),
    },
    body: '',
  }
}

/** The same JSON, as a header may hold it. */
function asciiOf(json: string): string {
  return json.replace(/[^\x20-\x7e]/g, character => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}
