import { type Denial, type DenialReason, denialRow } from '../domain/denial.ts'
import { type BufferedResponse, bufferedResponse, toFieldList } from '../http/buffered-response.ts'
import { toByteString } from '../http/byte-string.ts'

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

/** Responses to denials that hold no detail of their request, built once per reason. */
const PREPARED = new Map<DenialReason, BufferedResponse>()

export function denialResponse(denial: Denial): BufferedResponse {
  const { reason, detail, scope, retryAfterSeconds } = denial
  if (detail !== undefined || scope !== undefined || retryAfterSeconds !== undefined) return build(denial)
  let response = PREPARED.get(reason)
  if (response === undefined) {
    response = build(denial)
    PREPARED.set(reason, response)
  }
  return response
}

function build(denial: Denial): BufferedResponse {
  const { status, headers, body } = errorResponseOf(denial)
  return bufferedResponse(status, toFieldList(headers), toByteString(body))
}
