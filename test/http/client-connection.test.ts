import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { ClientConnection, MAX_PIPELINED } from '../../src/http/client-connection.ts'
import {
  closeConnectionAfter,
  type GuardOptions,
  guardConnections,
} from '../../src/http/guard-connections.ts'
import { rawResponse } from '../../src/http/raw-response.ts'
import { RawClient } from '../support/raw-client.ts'
import { settled, until } from '../support/until.ts'

const request = (path: string, ...lines: string[]) =>
  [`GET ${path} HTTP/1.1`, 'Host: a', ...lines, '', ''].join('\r\n')
const post = (path: string, body: string, ...lines: string[]) =>
  request(path, ...lines, 'Content-Length: 3').replace('GET', 'POST') + body
const REQUEST = request('/')
const MALFORMED = REQUEST.replace(' ', '  ')
/** More than the kernel buffers for a client that reads nothing. */
const LARGE = 'x'.repeat(20_000_000)
/** More than Node's server keeps of responses that wait for others of their connection. */
const MEDIUM = 'x'.repeat(300_000)
const BUDGET = 100 * REQUEST.length
const LINGER_MS = 500

let server: Server
let port: number
let respondsAtOnce: boolean
const pending: ServerResponse[] = []
const sockets: Socket[] = []
const faults: string[] = []
const clients: { destroy(): void }[] = []

async function start(options: Partial<GuardOptions> = {}): Promise<void> {
  server = createServer({ keepAliveTimeout: 60_000 }, (_request: IncomingMessage, response) => {
    if (respondsAtOnce) response.end()
    else pending.push(response)
  })
  guardConnections(server, {
    stallTimeoutMs: 10_000,
    maxReadAheadBytes: BUDGET,
    responseTo: fault => {
      faults.push(fault)
      return rawResponse(400, {}, fault)
    },
    ...options,
  })
  server.on('connection', socket => sockets.push(socket))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  // It listens on an address and a port.
  port = (server.address() as AddressInfo).port
}

beforeEach(() => {
  respondsAtOnce = false
  for (const list of [pending, sockets, faults]) list.length = 0
})
afterEach(() => {
  vi.useRealTimers()
  for (const client of clients.splice(0)) client.destroy()
  server.close()
  server.closeAllConnections()
})

function open(bytes: string): RawClient {
  const client = new RawClient(`http://127.0.0.1:${port}`)
  clients.push(client.socket)
  client.send(bytes)
  return client
}

/** A client that reads nothing until the test resumes it, and closes its side only when the test does. */
function openStream(bytes: string): Socket {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  clients.push(socket.on('error', () => {}))
  socket.write(bytes)
  return socket
}

const paths = () => pending.map(({ req }) => req.url)
const requestsRead = (count: number) =>
  until(`${count} requests have been read`, () => pending.length >= count)

function respond(path: string, body = path): void {
  const response = pending.find(({ req }) => req.url === path)
  if (response === undefined) throw new Error(`${path} was not read`)
  response.end(body)
}

/** The server's end of the only connection. */
function accepted(): Socket {
  const [socket] = sockets
  if (socket === undefined) throw new Error('No connection has been accepted')
  return socket
}

describe('the next request of a connection is not read', () => {
  test('while its client does not read its responses', async () => {
    await start()
    const client = openStream(request('/a'))
    await requestsRead(1)
    respond('/a', LARGE)
    client.write(request('/b'))
    await until('the bytes have arrived', () => accepted().bytesRead === 2 * request('/a').length)
    await settled()
    expect(paths()).toEqual(['/a'])
    // Its response is in progress, so that no other client takes its place.
    expect(ClientConnection.of(accepted())?.waitsFor).toBe('response')
    client.resume()
    await requestsRead(2)
  })

  test('before the response to a request with a body, also if an earlier request gets its response first', async () => {
    await start()
    const client = open(request('/a') + post('/b', 'abc') + request('/c'))
    await requestsRead(2)
    respond('/a')
    await client.answers(1)
    await settled()
    expect(paths()).toEqual(['/a', '/b'])
    respond('/b')
    await requestsRead(3)
    respond('/c')
    expect((await client.answers(3)).map(({ body }) => body)).toEqual(['/a', '/b', '/c'])
  })

  test('while Node’s server has paused the connection, because much waits to be written', async () => {
    await start()
    const client = open(request('/a') + request('/b') + request('/c'))
    await requestsRead(3)
    respond('/c', MEDIUM)
    client.send(request('/d') + request('/e'))
    await requestsRead(4)
    respond('/a')
    await client.answers(1)
    await settled()
    expect(paths()).toEqual(['/a', '/b', '/c', '/d'])
    respond('/b')
    await requestsRead(5)
    for (const path of ['/e', '/d']) respond(path)
    const bodies = (await client.answers(5)).map(({ body }) => body)
    expect(bodies).toEqual(['/a', '/b', MEDIUM, '/d', '/e'])
  })
})

test('bytes that a paused connection delivers all the same follow those that wait', async () => {
  await start({ maxReadAheadBytes: 1_000_000 })
  const client = open(REQUEST.repeat(MAX_PIPELINED + 1))
  await requestsRead(MAX_PIPELINED)
  client.send(REQUEST.slice(0, 10))
  await until('the bytes have arrived', () => accepted().readableLength === 10)
  accepted().read()
  respondsAtOnce = true
  for (const response of pending) response.end()
  client.send(REQUEST.slice(10))
  const answers = await client.answers(MAX_PIPELINED + 2)
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: MAX_PIPELINED + 2 }, () => 200))
})

test('a connection that was reset gives back its part of the read-ahead budget', async () => {
  await start()
  const client = open(REQUEST.repeat(60))
  await requestsRead(MAX_PIPELINED)
  client.socket.resetAndDestroy()
  await until('the connection has closed', () => accepted().closed)
  respondsAtOnce = true
  expect(await open(REQUEST.repeat(80)).answers(80)).toHaveLength(80)
})

test.each([
  ['HTTP/1.1', request('/', 'Connection: close')],
  ['HTTP/1.0', REQUEST.replace('1.1', '1.0')],
])('nothing behind the last request of a client is read or rejected (%s)', async (_, bytes) => {
  await start()
  const client = open(bytes + REQUEST)
  await requestsRead(1)
  respond('/')
  expect((await client.untilClosed()).map(({ status }) => status)).toEqual([200])
  expect([pending.length, faults]).toEqual([1, []])
})

describe.each([
  ['the gateway closes the connection', REQUEST, true, [200]],
  ['the gateway closes the connection before the body is complete', post('/', 'a'), true, [200]],
  ['the gateway closes the connection before a further request', post('/', 'abc') + REQUEST, true, [200]],
  ['malformed input follows', REQUEST + MALFORMED + REQUEST, false, [200, 400]],
])(
  'each pending request gets its response before the connection closes, if %s',
  (_, bytes, closes, statuses) => {
    test.each<[string, (client: RawClient, response: ServerResponse) => unknown]>([
      ['no more', () => {}],
      [
        'more input',
        async client => {
          client.send(REQUEST)
          await until('the connection is paused', () => accepted().isPaused())
        },
      ],
      [
        'the end of the client’s side',
        async client => {
          client.socket.end()
          await until('the end has been read', () => accepted().readableEnded)
        },
      ],
      ['a second reason to close it', (_client, response) => closeConnectionAfter(response.req)],
    ])('and then %s', async (_more, act) => {
      await start()
      const client = open(bytes)
      await requestsRead(1)
      const [response] = pending
      if (response === undefined) throw new Error('No request was read')
      if (closes) closeConnectionAfter(response.req)
      else await until('the input has been rejected', () => faults.length === 1)
      await act(client, response)
      response.end()
      expect((await client.untilClosed()).map(({ status }) => status)).toEqual(statuses)
      await settled()
      // It reads and discards what the client sends before it has noticed.
      expect(accepted().isPaused()).toBe(false)
      expect([pending.length, faults.length]).toEqual([1, statuses.length - 1])
    })
  },
)

describe('after its last response, a client', () => {
  /** @returns the client once it has read the end of the server's side */
  async function readToTheEnd(): Promise<Socket> {
    await start()
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const client = openStream(post('/', 'abc', 'Connection: close') + REQUEST)
    const [, response] = await once(server, 'request')
    response.end()
    await once(client.resume(), 'end')
    await settled()
    return client
  }

  test('has a moment in which its input is discarded, so that no reset overtakes the response', async () => {
    const client = await readToTheEnd()
    client.write(REQUEST)
    const bytes = post('/', 'abc', 'Connection: close').length + 2 * REQUEST.length
    while (accepted().bytesRead < bytes) await settled()
    vi.advanceTimersByTime(LINGER_MS - 1)
    await settled()
    expect([accepted().destroyed, accepted().isPaused()]).toEqual([false, false])
    vi.advanceTimersByTime(1)
    expect(accepted().destroyed).toBe(true)
  })

  test('that closes its side too is not waited for', async () => {
    const client = await readToTheEnd()
    client.end()
    await once(accepted(), 'close')
    expect(vi.getTimerCount()).toBe(0)
  })

  test('that does not read it is disconnected when it has been idle, not after the time between two requests', async () => {
    await start({ stallTimeoutMs: 200, responseTo: () => rawResponse(400, {}, LARGE) })
    openStream(request('/a') + MALFORMED)
    await requestsRead(1)
    respond('/a')
    await until('the connection has closed', () => accepted().closed)
  })
})
