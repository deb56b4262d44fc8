import { STATUS_CODES } from 'node:http'

/** A whole answer for where there is no response object; its connection ends after it. */
export function rawAnswer(status: number, headers: Readonly<Record<string, string>>, body: string): string {
  const fields = {
    ...headers,
    'content-length': String(Buffer.byteLength(body)),
    date: new Date().toUTCString(),
    connection: 'close',
  }
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`
}
