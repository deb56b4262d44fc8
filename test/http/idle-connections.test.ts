import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { rawResponse } from '../../src/http/buffered-response.ts'
import { type ConnectionFault, guardConnections } from '../../src/http/guard-connections.ts'
import { requestTimeouts } from '../../src/http/server-options.ts'
import { RawClient } from '../support/raw-client.ts'
import { until } from '../support/until.ts'

const HEAD = 'GET / HTTP/1.1\r\nHost: a\r\n'
const REQUEST = `${HEAD}\r\n`
const STALL_MS = 200
/** More than the kernel buffers for a client that reads nothing. */
const LARGE = 'x'.repeat(20_000_000)

let server: Server
const faults: ConnectionFault[] = []
const causes: unknown[] = []
const pending: ServerResponse[] = []
const sockets: Socket[] = []
const clients: RawClient[] = []
/** How often a connection has had no traffic for half of the time. */
let idles = 0

async function start(timeoutMs = 60_000): Promise<void> {
  server = createServer(
    { ...requestTimeouts(timeoutMs), keepAliveTimeout: STALL_MS / 2, keepAliveTimeoutBuffer: 0 },
    (request, response) => {
      request.resume()
      pending.push(response)
    },
  )
  guardConnections(server, {
    stallTimeoutMs: STALL_MS,
    responseTo: (fault, cause) => {
      faults.push(fault)
      causes.push(cause)
      return rawResponse(400, {}, fault)
    },
  })
  server.on('timeout', () => idles++)
  server.on('connection', socket => sockets.push(socket))
  await once(server.listen(0, '127.0.0.1'), 'listening')
}

beforeEach(() => {
  idles = 0
  for (const list of [faults, causes, pending, sockets]) list.length = 0
})
afterEach(() => {
  for (const client of clients.splice(0)) client.end()
  server.close()
  server.closeAllConnections()
})

function open(bytes: string): RawClient {
  const { port } = server.address() as AddressInfo
  const client = new RawClient(`http://127.0.0.1:${port}`)
  clients.push(client)
  client.send(bytes)
  return client
}

test('a connection without a request closes once it is idle, without a response', async () => {
  await start()
  const client = open(REQUEST)
  await until('the request has been read', () => pending.length === 1)
  // It may have been idle before, where a machine is slow.
  const before = idles
  pending[0]?.end()
  expect(await client.untilClosed()).toHaveLength(1)
  expect(idles - before).toBe(1)
})

test.each([
  ['a response that takes long', REQUEST, 1],
  ['the rest of a head', HEAD, 0],
  ['the rest of a body', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab', 1],
  ['the first byte of a client', '', 0],
])('a connection stays open while it waits for %s', async (_, bytes, count) => {
  await start()
  const client = open(bytes)
  await until('it was idle more than once', () => idles > 2 && pending.length === count)
  expect(client.closed).toBe(false)
  // It may have read something at the start of the first half.
  expect([server.timeout, sockets[0]?.timeout]).toEqual([STALL_MS / 2, STALL_MS / 2])
})

test('a client that reads nothing is disconnected, and its response counts as aborted', async () => {
  await start()
  const client = open(REQUEST)
  client.socket.pause()
  await until('the request has been read', () => pending.length === 1)
  pending[0]?.end(LARGE)
  await until('the connection has closed', () => sockets[0]?.closed === true && pending[0]?.closed === true)
  expect(pending[0]?.writableFinished).toBe(false)
})

test('a client that has its last response is disconnected, and what it sends behind it is discarded', async () => {
  await start()
  const client = open(`${HEAD}Connection: close\r\n\r\n${REQUEST}`)
  await until('the request has been read', () => pending.length === 1)
  pending[0]?.end()
  client.send(REQUEST)
  expect(await client.untilClosed()).toHaveLength(1)
  await until('the server has closed its side', () => sockets[0]?.closed === true)
  expect(pending).toHaveLength(1)
})

test.each([
  ['a request that arrives too late', HEAD, ['request_timeout']],
  ['a client that sends nothing', '', []],
])('the time for a request ends the connection of %s', async (_, bytes, expected) => {
  await start(STALL_MS / 2)
  expect((await open(bytes).untilClosed()).map(({ body }) => body)).toEqual(expected)
  expect(faults).toEqual(expected)
})

test.each([
  ['a request that never arrives', HEAD, ['request_timeout']],
  ['a client that sends nothing', '', []],
])('a server that closes waits for %s no longer than the time for one', async (_, bytes, expected) => {
  await start()
  const client = open(bytes)
  await until('it has connected', () => sockets[0]?.bytesRead === bytes.length)
  const closed = once(server, 'close')
  server.close()
  // As a drain does it.
  const sweep = setInterval(() => server.closeIdleConnections(), 10)
  onTestFinished(() => clearInterval(sweep))
  expect((await client.untilClosed()).map(({ body }) => body)).toEqual(expected)
  expect(faults).toEqual(expected)
  await closed
})

test.each([
  ['a long target', `GET /${'a'.repeat(20_000)}`, 'url_too_long'],
  [
    'a line of 8 KiB and long fields',
    `GET /${'a'.repeat(8 * 1024 - 'GET / HTTP/1.1'.length)} HTTP/1.1\r\nX: ${'a'.repeat(20_000)}`,
    'headers_too_large',
  ],
] as const)('a head with %s is rejected by its cause', async (_, bytes, fault) => {
  await start()
  await open(bytes).untilClosed()
  expect(faults).toEqual([fault])
  // The text of the fault says it.
  expect(causes).toEqual([undefined])
})

test('an expectation other than 100-continue is rejected, and a GET with 100-continue keeps its connection', async () => {
  await start()
  await open(`${HEAD}Expect: other\r\n\r\n`).untilClosed()
  expect(faults).toEqual(['expectation_failed'])
  const client = open(`${HEAD}Expect: 100-Continue\r\n\r\n`)
  await until('the request has been read', () => pending.length === 1)
  pending[0]?.end()
  const [answer] = await client.answers(1)
  expect(answer?.head).toMatch(/\r\nconnection: keep-alive/i)
})
