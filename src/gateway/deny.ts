import { denialRow } from '../domain/denial.ts'
import { writeBuffered } from '../http/buffered-response.ts'
import { closeConnectionAfter } from '../http/guard-connections.ts'
import type { RequestObserver } from '../observability/request-observer.ts'
import type { ClientRequest, Deny } from '../upstream/client-request.ts'
import { abortResponse } from '../upstream/forward.ts'
import type { Admission } from './admission.ts'
import { errorResponseOf, type PresentDenial, prepareDenials } from './denial-response.ts'

/**
 * Under overload some denials are delayed, so that clients that ignore `Retry-After` cannot starve others. A delayed
 * request no longer counts as in flight.
 */
export function createDeny(
  admission: Pick<Admission, 'delayRejection'>,
  observer: Pick<RequestObserver, 'handedOver'>,
  present: PresentDenial = errorResponseOf,
): Deny {
  const deny = createImmediateDeny(present)
  return (request, denial, closesConnection) => {
    if (denialRow(denial.reason).delayedUnderOverload !== true) {
      deny(request, denial, closesConnection)
      return
    }
    observer.handedOver(request.observation)
    admission
      .delayRejection()
      .then(() => deny(request, denial, closesConnection))
      .catch((error: unknown) => abortResponse(request, error))
  }
}

function createImmediateDeny(present: PresentDenial): Deny {
  const responseTo = prepareDenials(present)
  return ({ response, observation }, denial, closesConnection = false) => {
    const row = denialRow(denial.reason)
    observation.reason = denial.reason
    if (row.responsible === 'upstream') observation.source = 'upstream'
    if (closesConnection || row.closesConnection === true) announceClose({ response })
    observation.responseBytes = writeBuffered(response, responseTo(denial), observation.requestId)
  }
}

/** Sends `Connection: close` with this response and reads no further request of the connection. */
export function announceClose({ response }: Pick<ClientRequest, 'response'>): void {
  closeConnectionAfter(response.req)
  response.setHeader('connection', 'close')
}
