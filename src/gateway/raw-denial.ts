import { randomUUID } from 'node:crypto'
import type { DenialReason } from '../domain/denial.ts'
import { denied } from '../domain/denial.ts'
import { rawResponse } from '../http/raw-response.ts'
import { errorResponseOf, type PresentDenial } from './denial-response.ts'

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
