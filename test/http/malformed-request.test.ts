import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { rawResponse } from '../../src/http/buffered-response.ts'
import { guardConnections } from '../../src/http/guard-connections.ts'
import { explainParserError } from '../../src/http/malformed-request.ts'
import { RawClient } from '../support/raw-client.ts'

const server = createServer({ requireHostHeader: false }, (request, response) => {
  request.resume().on('end', () => response.writeHead(200, { 'content-length': '8' }).end('accepted'))
})

beforeAll(async () => {
  guardConnections(server, {
    stallTimeoutMs: 10_000,
    responseTo: (fault, cause = fault) => rawResponse(400, {}, cause),
    rejectTwoHosts: true,
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
})
afterAll(() => server.close())

/** @returns the body of the first response to these bytes, behind which the client closes its side */
async function answerTo(bytes: string | Buffer): Promise<string | undefined> {
  const { port } = server.address() as AddressInfo
  const client = new RawClient(`http://127.0.0.1:${port}`)
  client.socket.end(bytes, 'latin1')
  return (await client.untilClosed())[0]?.body
}

const get = (...lines: string[]) => ['GET / HTTP/1.1', ...lines, '', ''].join('\r\n')
const post = (chunks: string) => `POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`

const VERSION = 'The HTTP version must be 1.0 or 1.1'
const METHOD = 'The request line begins with an unknown method'
const REQUEST_LINE = 'The request line must be a method, a target and HTTP/1.1, each separated by one space'
const FIELD =
  'A header field has a character that is not allowed in its name or value, or a space before its colon'
const LENGTH = 'The Content-Length field must be a whole number, sent once and without Transfer-Encoding'
const CODING = 'The Transfer-Encoding field must be chunked alone, without Content-Length'
const CHUNK_END = 'A chunk of the request body does not end where its size says, or has an invalid extension'
const PROXY = 'The PROXY protocol is not supported on this port'

test.each([
  ['no Host field', get(), 'The Host field is missing'],
  ['two Host fields', get('Host: a', 'X: Host', 'hOsT: b'), 'The request has two Host fields'],
  ['an unknown method', 'BREW / HTTP/1.1\r\nHost: a\r\n\r\n', METHOD],
  ['a word that begins as the PROXY protocol does', 'PROXYING / HTTP/1.1\r\nHost: a\r\n\r\n', METHOD],
  ['an unknown method before what is a PROXY line', 'BREW PROXY \r\n\r\n', METHOD],
  [
    'a TLS handshake',
    Buffer.from([0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0xfc]),
    'This port speaks plain HTTP, and the client began with TLS',
  ],
  ['the PROXY protocol', 'PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n', PROXY],
  ['version 2 of the PROXY protocol', '\r\n\r\n\0\r\nQUIT\n\x20\0\0\0', PROXY],
  ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'HTTP/2 is not supported on this port: send HTTP/1.1'],
  ['HTTP/0.9', 'GET /\r\n\r\n', VERSION],
  ['HTTP/2.0', 'GET / HTTP/2.0\r\nHost: a\r\n\r\n', VERSION],
  [
    'HTTP/9.9',
    'GET / HTTP/9.9\r\nHost: a\r\n\r\n',
    `${VERSION}, and the request line must end with CRLF after it`,
  ],
  ['a version in small letters', 'GET / http/1.1\r\nHost: a\r\n\r\n', REQUEST_LINE],
  [
    'two spaces in the request line',
    'GET  / HTTP/1.1\r\nHost: a\r\n\r\n',
    'The request line has more than one space between its parts',
  ],
  [
    'a control character in the target',
    'GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n',
    'The request target has a character that is not allowed in one',
  ],
  ['a line feed alone', 'GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n', 'A line does not end with CRLF'],
  ['a carriage return alone', 'GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n', 'A line does not end with CRLF'],
  ['a space before a colon', get('Host: a', 'X : b'), FIELD],
  ['two lengths', get('Host: a', 'Content-Length: 1', 'Content-Length: 1'), LENGTH],
  ['a length that is no number', get('Host: a', 'Content-Length: 1x'), LENGTH],
  ['a coding, then a length', get('Host: a', 'Transfer-Encoding: chunked', 'Content-Length: 1'), LENGTH],
  ['a length, then a coding', get('Host: a', 'Content-Length: 1', 'Transfer-Encoding: chunked'), CODING],
  ['an unknown coding', get('Host: a', 'Transfer-Encoding: gzip'), CODING],
  ['a chunk without a size', post('x\r\n'), 'A chunk of the request body has an invalid size'],
  ['a chunk of another size', post('1\r\nab\r\n0\r\n\r\n'), CHUNK_END],
  ['an extension of a chunk that is none', post('1;\x01\r\na\r\n0\r\n\r\n'), CHUNK_END],
  [
    'endless extensions of a chunk',
    post(`1;${'x'.repeat(20_000)}\r\na\r\n0\r\n\r\n`),
    'The extensions of a chunk of the request body are too long',
  ],
  ['a head that is cut off', 'GET / HTTP/1.1\r\nHost: a', 'The connection ended before the request did'],
])('the client of a malformed request reads what is wrong with it: %s', async (_, bytes, cause) => {
  expect(await answerTo(bytes)).toBe(cause)
})

test.each([
  ['of HTTP/1.1', get('Host: a')],
  ['of HTTP/1.0 without a Host', 'GET / HTTP/1.0\r\n\r\n'],
  ['whose other fields contain the word Host', get('Host: a', 'X-Host: host', 'X: Host', 'Y: Host')],
  ['with a body in chunks that have extensions', post('1;a=b\r\nx\r\n0\r\n\r\n')],
])('a request %s is accepted', async (_, bytes) => {
  expect(await answerTo(bytes)).toBe('accepted')
})

test('a client reads an answer also to an error of the parser that has no text of its own', () => {
  expect(explainParserError({ code: 'HPE_NEW' })).toBe('The request is not valid HTTP/1.1')
  expect(explainParserError({})).toBe('The request is not valid HTTP/1.1')
  expect(explainParserError({ code: 'HPE_NEW', rawPacket: Buffer.from('PROXY ') })).toBe(
    'The request is not valid HTTP/1.1',
  )
  expect(explainParserError({ code: 'HPE_INVALID_METHOD' })).toBe(METHOD)
})
