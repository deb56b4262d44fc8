import { randomUUID } from 'node:crypto'
import { type Denial, type DenialReason, denialRow, denied } from '../domain/denial.ts'
import { type BufferedResponse, bufferedResponse, toFieldList } from '../http/buffered-response.ts'
import { toByteString } from '../http/byte-string.ts'
import { rawResponse } from '../http/raw-response.ts'

/** The response to a denied request, without its request id. */
export interface ErrorResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export function errorResponseOf({ reason, detail, scope, retryAfterSeconds }: Denial): ErrorResponse {
  const row = denialRow(reason)
  const wait = retryAfterSeconds ?? row.retryAfterSeconds
  const scopeParameter = scope === undefined ? '' : `, scope="${scope}"`
  const body = JSON.stringify({ code: row.code, error: detail ?? row.text })
  return {
    status: row.status,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
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

export interface RawDenial {
  readonly requestId: string
  readonly status: number
  /** The complete response, head and body. The connection closes after it. */
  readonly bytes: string
}

/** The denial response as text, for a request that Node's parser rejects before there is a response object. */
export function rawDenialOf(
  reason: DenialReason,
  present: PresentDenial = errorResponseOf,
  detail?: string,
): RawDenial {
  const { status, headers, body } = present(denied(reason, detail === undefined ? {} : { detail }))
  const requestId = randomUUID()
  return { requestId, status, bytes: rawResponse(status, { ...headers, 'x-request-id': requestId }, body) }
}
