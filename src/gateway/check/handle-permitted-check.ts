import { denied } from '../../domain/denial.ts'
import { bufferedResponse, toFieldList, writeBuffered } from '../../http/buffered-response.ts'
import { NO_BYTES } from '../../http/byte-string.ts'
import type { Assertions } from '../../upstream/assertion/assertions.ts'
import type { ClientRequest, Deny } from '../../upstream/client-request.ts'
import { abortResponse } from '../../upstream/forward.ts'
import { identityHeaders } from '../../upstream/request-headers.ts'
import type { Gateway } from '../handle-request.ts'

/**
 * Tells the proxy to forward a request, and with which headers.
 * @param assertions null if none are configured; otherwise each response has one
 */
export function createCheckHandler(assertions: Assertions | null, deny: Deny): Gateway['handlePermitted'] {
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
