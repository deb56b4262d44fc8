import { randomUUID } from 'node:crypto'
import { type Denial, type DenialReason, denialRow, denied } from '../domain/denial.ts'
import type { KeyGrant } from '../domain/key/key-record.ts'
import {
  asByteString,
  type BufferedResponse,
  bufferedResponse,
  OWN_JSON_FIELDS,
  rawResponse,
  toByteString,
  toFieldList,
  writeBuffered,
} from '../http/buffered-response.ts'
import { closeConnectionAfter } from '../http/guard-connections.ts'
import type { RequestObserver } from '../observability/request-observer.ts'
import type { ClientRequest, Deny } from '../upstream/client-request.ts'
import { abortResponse, type Forward } from '../upstream/forward.ts'
import type { Admission } from './admission.ts'
import type { Responder } from './handle-request.ts'

/** Forwards a request, or responds with the description of its key if the route is the gateway's own. */
export function createPermittedHandler(forward: Forward): Responder['handlePermitted'] {
  return (request, permit) => {
    const { response, observation } = request
    if (permit.route.answeredBy === 'upstream') forward(request, permit)
    else
      observation.responseBytes = writeBuffered(response, describeGrant(permit.grant), observation.requestId)
  }
}

const FIELDS = toFieldList(OWN_JSON_FIELDS)

/** A grant never changes: a new version of its record is another one. */
const DESCRIPTIONS = new WeakMap<KeyGrant, BufferedResponse>()

function describeGrant(grant: KeyGrant): BufferedResponse {
  let description = DESCRIPTIONS.get(grant)
  if (description === undefined) {
    description = describeKey(grant)
    DESCRIPTIONS.set(grant, description)
  }
  return description
}

/** The response to `GET /api/v1/auth`. */
export function describeKey(grant: KeyGrant): BufferedResponse {
  const { workspaceId, scopes, id, hint, expiresAtMs, plan } = grant
  const expiresAt = new Date(expiresAtMs).toISOString()
  // Only the hint can hold non-ASCII characters. Converted first, it leaves one byte per character in the whole body,
  // which halves the time of JSON and of the write.
  const body = JSON.stringify({ workspaceId, scopes, keyId: id, hint: toByteString(hint), expiresAt, plan })
  return bufferedResponse(200, FIELDS, asByteString(body))
}

/**
 * Under overload some denials are delayed, so that clients that ignore `Retry-After` cannot starve others. A delayed
 * request no longer counts as in flight.
 */
export function createDeny(
  admission: Pick<Admission, 'delayRejection'>,
  observer: Pick<RequestObserver, 'handedOver'>,
  present: PresentDenial = createErrorResponse,
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

/** The response to a denied request, without its request id. */
interface ErrorResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export function createErrorResponse({ reason, detail, scope, retryAfterSeconds }: Denial): ErrorResponse {
  const row = denialRow(reason)
  const wait = retryAfterSeconds ?? row.retryAfterSeconds
  const scopeParameter = scope === undefined ? '' : `, scope="${scope}"`
  const body = JSON.stringify({ code: row.code, error: detail ?? row.text })
  return {
    status: row.status,
    headers: {
      ...OWN_JSON_FIELDS,
      ...row.headers,
      ...(row.challenge === undefined
        ? {}
        : { 'www-authenticate': `Bearer realm="postern"${row.challenge}${scopeParameter}` }),
      ...(wait === undefined ? {} : { 'retry-after': String(wait) }),
    },
    body,
  }
}

/** How a listener words a denial. */
export type PresentDenial = (denial: Denial) => ErrorResponse

/** @returns the responses of a listener; those that hold no detail of their request are built once per reason */
export function prepareDenials(present: PresentDenial): (denial: Denial) => BufferedResponse {
  const prepared = new Map<DenialReason, BufferedResponse>()
  return denial => {
    const { reason, detail, scope, retryAfterSeconds } = denial
    if (detail !== undefined || scope !== undefined || retryAfterSeconds !== undefined) {
      return build(present(denial))
    }
    let response = prepared.get(reason)
    if (response === undefined) {
      response = build(present(denial))
      prepared.set(reason, response)
    }
    return response
  }
}

function build({ status, headers, body }: ErrorResponse): BufferedResponse {
  return bufferedResponse(status, toFieldList(headers), toByteString(body))
}

interface RawDenial {
  readonly requestId: string
  readonly status: number
  /** The complete response, head and body. The connection closes after it. */
  readonly bytes: string
}

/** The denial response as text, for a request that Node's parser rejects before there is a response object. */
export function createRawDenial(
  reason: DenialReason,
  present: PresentDenial = createErrorResponse,
  detail?: string,
): RawDenial {
  const { status, headers, body } = present(denied(reason, detail === undefined ? {} : { detail }))
  const requestId = randomUUID()
  return { requestId, status, bytes: rawResponse(status, { ...headers, 'x-request-id': requestId }, body) }
}
