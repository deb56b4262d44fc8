import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  asByteString,
  bufferedResponse,
  handOver,
  NO_BYTES,
  onHandedOver,
  writeBuffered,
} from '../../src/http/buffered-response.ts'
import { exchangeRaw } from '../support/http-client.ts'
import { exchange, type RawAnswer } from '../support/raw-client.ts'

let respond: (response: ServerResponse) => void = () => {}
const server = createServer((_request, response) => respond(response))

beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening')
})
afterAll(() => {
  server.close()
  server.closeAllConnections()
})

async function answerOf(write: (response: ServerResponse) => void): Promise<RawAnswer> {
  respond = response => {
    response.sendDate = false
    write(response)
  }
  const { port } = server.address() as AddressInfo
  return exchange(`http://127.0.0.1:${port}`, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
}

test('a response has its fields, the id of its request and the length of its body', async () => {
  let length = 0
  const { status, fields, body } = await answerOf(response => {
    const buffered = bufferedResponse(403, ['x-a', '1', 'x-b', 'x-a'], asByteString('Ã©'))
    length = writeBuffered(response, buffered, 'req_1')
  })
  expect([status, body, length]).toEqual([403, 'é', 2])
  expect(fields.slice(0, 4)).toEqual([
    ['x-a', '1'],
    ['x-b', 'x-a'],
    ['x-request-id', 'req_1'],
    ['content-length', '2'],
  ])
})

test('a response whose status allows no body has no length', async () => {
  const { status, fields, body } = await answerOf(response => {
    expect(writeBuffered(response, bufferedResponse(304, ['etag', '"a"'], null), 'req_1')).toBe(0)
  })
  expect([status, body]).toEqual([304, ''])
  expect(fields.slice(0, 2)).toEqual([
    ['etag', '"a"'],
    ['x-request-id', 'req_1'],
  ])
  expect(fields.map(([name]) => name.toLowerCase())).not.toContain('content-length')
})

test('the body of a response to HEAD is not sent, and its bytes do not count', async () => {
  let length = -1
  respond = response => {
    length = writeBuffered(response, bufferedResponse(405, [], asByteString('{}')), 'req_1')
  }
  const { port } = server.address() as AddressInfo
  const { text } = await exchangeRaw(port, 'HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  expect(text).toMatch(/^HTTP\/1\.1 405 .*content-length: 2\r\n.*\r\n\r\n$/s)
  expect(length).toBe(0)
})

test('a field that the gateway has set before replaces the one of the response, and no value is taken for a name', async () => {
  const { fields } = await answerOf(response => {
    response.setHeader('ratelimit', 'ours')
    const list = ['x-a', 'ratelimit', 'ratelimit', 'theirs', 'x-b', '2']
    writeBuffered(response, bufferedResponse(200, list, NO_BYTES), 'req_1')
  })
  expect(fields.slice(0, 5)).toEqual([
    ['ratelimit', 'ours'],
    ['x-a', 'ratelimit'],
    ['x-b', '2'],
    ['x-request-id', 'req_1'],
    ['content-length', '0'],
  ])
})

test.each([
  ['with a body, one byte for each character', 'Ã©', 'é'],
  ['without one', undefined, ''],
])('a response %s is reported as handed over, with all its bytes', async (_, body, received) => {
  let handedOver = 0
  const answer = await answerOf(response => {
    onHandedOver(response, () => handedOver++)
    response.writeHead(200, { 'content-length': String(Buffer.byteLength(received)) })
    handOver(response, body)
  })
  expect([answer.body, handedOver]).toEqual([received, 1])
})
