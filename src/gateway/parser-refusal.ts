import { randomUUID } from 'node:crypto'
import { STATUS_CODES } from 'node:http'
import type { DenialReason } from '../domain/verdict.ts'
import { denied } from '../domain/verdict.ts'
import { type Refusal, refusalOf } from './refusal.ts'

/** Which refusal stands for an error of Node's parser. @param code of the error that `clientError` brings */
export function reasonOfParserError(code: string | undefined): DenialReason {
  return code === 'HPE_HEADER_OVERFLOW' ? 'headers_too_large' : 'malformed_request'
}

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
  return { requestId, status: refusal.status, bytes: write(refusal, requestId) }
}

function write(refusal: Refusal, requestId: string): string {
  const fields = {
    ...refusal.headers,
    'x-request-id': requestId,
    'content-length': String(Buffer.byteLength(refusal.body)),
    date: new Date().toUTCString(),
    connection: 'close',
  }
  const head = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}\r\n${head.join('')}\r\n${refusal.body}`
}
