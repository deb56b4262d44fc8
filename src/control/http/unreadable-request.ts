import type { Socket } from 'node:net'
import { ApiError } from './api-error.ts'

/** What Node's parser refused never becomes a request: the answer is written by hand, and the connection ends. */
export function answerUnreadable(error: Error & { code?: string }, socket: Socket): void {
  if (!socket.writable) {
    socket.destroy()
    return
  }
  const refusal =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? new ApiError('headers_too_large', 'The headers are too large')
      : new ApiError('invalid_request', 'This is not a well-formed HTTP request')
  const body = JSON.stringify(refusal.body)
  const reason = refusal.status === 431 ? 'Request Header Fields Too Large' : 'Bad Request'
  const head = [
    `HTTP/1.1 ${refusal.status} ${reason}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Cache-Control: no-store',
    'X-Content-Type-Options: nosniff',
    'Connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}
