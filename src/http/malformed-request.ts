import type { IncomingMessage } from 'node:http'

/** Texts of the causes that more than one place finds. */
export const NOT_HTTP_VERSION = 'The HTTP version must be 1.0 or 1.1'
export const NO_HOST = 'The Host field is missing'
export const TWO_HOSTS = 'The request has two Host fields'

const TLS_HANDSHAKE = 0x16
const PROXY_V2 = '\r\n\r\n\0\r\nQUIT\n'
const CONTENT_LENGTH =
  'The Content-Length field must be a whole number, sent once and without Transfer-Encoding'

/** What Node's parser rejects, by the code of its error. */
const PARSER_CAUSES: ReadonlyMap<string, string> = new Map([
  ['HPE_INVALID_METHOD', 'The request line begins with an unknown method'],
  ['HPE_INVALID_URL', 'The request target has a character that is not allowed in one'],
  [
    'HPE_INVALID_CONSTANT',
    'The request line must be a method, a target and HTTP/1.1, each separated by one space',
  ],
  ['HPE_INVALID_VERSION', `${NOT_HTTP_VERSION}, and the request line must end with CRLF after it`],
  ['HPE_PAUSED_H2_UPGRADE', 'HTTP/2 is not supported on this port: send HTTP/1.1'],
  [
    'HPE_INVALID_HEADER_TOKEN',
    'A header field has a character that is not allowed in its name or value, or a space before its colon',
  ],
  ['HPE_CR_EXPECTED', 'A line does not end with CRLF'],
  ['HPE_LF_EXPECTED', 'A line does not end with CRLF'],
  ['HPE_INVALID_CONTENT_LENGTH', CONTENT_LENGTH],
  ['HPE_UNEXPECTED_CONTENT_LENGTH', CONTENT_LENGTH],
  [
    'HPE_INVALID_TRANSFER_ENCODING',
    'The Transfer-Encoding field must be chunked alone, without Content-Length',
  ],
  ['HPE_INVALID_CHUNK_SIZE', 'A chunk of the request body has an invalid size'],
  ['HPE_STRICT', 'A chunk of the request body does not end where its size says, or has an invalid extension'],
  ['HPE_CHUNK_EXTENSIONS_OVERFLOW', 'The extensions of a chunk of the request body are too long'],
  ['HPE_INVALID_EOF_STATE', 'The connection ended before the request did'],
])

/** @param rawPacket the bytes that the parser was given last */
export function explainParserError({
  code = '',
  rawPacket,
}: {
  readonly code?: string | undefined
  readonly rawPacket?: Buffer
}): string {
  if (code === 'HPE_INVALID_METHOD' && rawPacket !== undefined) {
    if (rawPacket[0] === TLS_HANDSHAKE) return 'This port speaks plain HTTP, and the client began with TLS'
    const start = rawPacket.toString('latin1', 0, PROXY_V2.length)
    if (start === PROXY_V2 || start.startsWith('PROXY '))
      return 'The PROXY protocol is not supported on this port'
  }
  return PARSER_CAUSES.get(code) ?? 'The request is not valid HTTP/1.1'
}

/**
 * Why a request is ambiguous between servers that Node's parser has accepted (RFC 9112, sections 3 and 3.2); null if it is not.
 * @param lineLength of the request line as it was received
 */
export function findIrregularity(request: IncomingMessage, lineLength: number): string | null {
  const { method = '', url = '', httpVersion, headers } = request
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return NOT_HTTP_VERSION
  // With additional spaces the line is longer.
  if (lineLength !== method.length + url.length + '  HTTP/1.1'.length) {
    return 'The request line has more than one space between its parts'
  }
  return headers.host === undefined && httpVersion === '1.1' ? NO_HOST : null
}

/** Node keeps the first of several. */
export function hasTwoHosts({ rawHeaders }: IncomingMessage): boolean {
  return rawHeaders.filter((text, index) => index % 2 === 0 && text.toLowerCase() === 'host').length > 1
}
