import { STATUS_CODES } from 'node:http'

/** A complete response as text, for a connection that has no response object. The connection closes after it. */
export function rawResponse(status: number, headers: Readonly<Record<string, string>>, body: string): string {
  const fields = {
    ...headers,
    'content-length': String(Buffer.byteLength(body)),
    date: new Date().toUTCString(),
    connection: 'close',
  }
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`
}
