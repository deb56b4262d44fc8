import { randomUUID } from 'node:crypto'
import type { DenialReason } from '../domain/denial.ts'
import { denied } from '../domain/denial.ts'
import { rawAnswer } from '../http/raw-answer.ts'
import { refusalOf } from './denial-response.ts'

export interface RawRefusal {
  readonly requestId: string
  readonly status: number
  /** The whole answer, head and body, after which the connection closes. */
  readonly bytes: string
}

/** An answer for where there is no response object: the same table, written out. */
export function rawRefusalOf(reason: DenialReason): RawRefusal {
  const refusal = refusalOf(denied(reason))
  const requestId = randomUUID()
  const headers = { ...refusal.headers, 'x-request-id': requestId }
  return { requestId, status: refusal.status, bytes: rawAnswer(refusal.status, headers, refusal.body) }
}
