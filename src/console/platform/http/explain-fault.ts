import { rawResponse } from '../../../http/buffered-response.ts'
import type { ConnectionFault } from '../../../http/guard-connections.ts'

const FAULT_RESPONSES: Readonly<
  Record<ConnectionFault, readonly [status: number, code: string, text: string]>
> = {
  malformed_request: [400, 'invalid_request', 'The request is not HTTP/1.1'],
  unknown_route: [404, 'not_found', 'No resource at this path'],
  request_timeout: [408, 'invalid_request', 'The request was not received in time'],
  expectation_failed: [417, 'invalid_request', 'The Expect field is not supported, other than 100-continue'],
  url_too_long: [414, 'request_too_large', 'The URL is too long'],
  headers_too_large: [431, 'headers_too_large', 'The headers are too large'],
}

/** The response to bytes that never become a request. @param cause in place of the general text */
export function explainFault(fault: ConnectionFault, requestId: string, cause?: string): string {
  const [status, code, text] = FAULT_RESPONSES[fault]
  const headers = {
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'x-request-id': requestId,
  }
  return rawResponse(status, headers, JSON.stringify({ code, error: cause ?? text }))
}
