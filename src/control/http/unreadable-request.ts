import type { ConnectionFault } from '../../http/guard-connections.ts'
import { rawAnswer } from '../../http/raw-answer.ts'

const ANSWERS: Readonly<Record<ConnectionFault, readonly [status: number, code: string, text: string]>> = {
  malformed_request: [400, 'invalid_request', 'This is not a well-formed HTTP request'],
  unknown_route: [404, 'not_found', 'There is nothing at this path'],
  request_timeout: [408, 'invalid_request', 'The request was not received in time'],
  url_too_long: [414, 'request_too_large', 'The URL is too long'],
  headers_too_large: [431, 'headers_too_large', 'The headers are too large'],
}

/** The console's answer to bytes that never become a request. */
export function answerUnreadable(fault: ConnectionFault, requestId: string): string {
  const [status, code, error] = ANSWERS[fault]
  const headers = {
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'x-request-id': requestId,
  }
  return rawAnswer(status, headers, JSON.stringify({ code, error }))
}
