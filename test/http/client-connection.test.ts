import { once } from 'node:events'
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { rawResponse } from '../../src/http/buffered-response.ts'
import { ClientConnection, MAX_PIPELINED } from '../../src/http/client-connection.ts'
import {
  closeConnectionAfter,
  type GuardOptions,
  guardConnections,
} from '../../src/http/guard-connections.ts'
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

const cleanups: (() => void)[] = []
afterEach(() => {
  vi.useRealTimers()
  for (const cleanUp of cleanups.splice(0)) cleanUp()
})

/** A server to which the test itself responds. What a test that has failed still does must not reach the next one. */
async function start(options: Partial<GuardOptions> = {}) {
  const pending: ServerResponse[] = []
  const sockets: Socket[] = []
  const faults: string[] = []
  let handle: RequestListener = () => {}
  const listener = createServer({ keepAliveTimeout: 60_000 }, (message, response) => {
    pending.push(response)
    handle(message, response)
  })
  guardConnections(listener, {
    stallTimeoutMs: 10_000,
    maxReadAheadBytes: BUDGET,
    responseTo: fault => {
      faults.push(fault)
      return rawResponse(400, {}, fault)
    },
    ...options,
  })
  listener.on('connection', socket => sockets.push(socket))
  await once(listener.listen(0, '127.0.0.1'), 'listening')
  cleanups.push(() => {
    listener.close()
    listener.closeAllConnections()
  })
  // It listens on an address and a port.
  const { port } = listener.address() as AddressInfo
  return {
    pending,
    faults,
    paths: () => pending.map(({ req }) => req.url),
    requestsRead: (count: number) => until(`${count} requests have been read`, () => pending.length >= count),
    respond(path: string, body = path): void {
      const response = pending.find(({ req }) => req.url === path)
      if (response === undefined) throw new Error(`${path} was not read`)
      response.end(body)
    },
    respondToAll(): void {
      handle = (_message, response) => response.end()
      for (const response of pending) response.end()
    },
    handleBy(listen: RequestListener): void {
      handle = listen
    },
    /** The server's end of the only connection. */
    accepted(): Socket {
      const [socket] = sockets
      if (socket === undefined) throw new Error('No connection has been accepted')
      return socket
    },
    open(bytes: string): RawClient {
      const client = new RawClient(`http://127.0.0.1:${port}`)
      cleanups.push(() => client.end())
      client.send(bytes)
      return client
    },
    /** A client that reads nothing until the test resumes it, and closes its side only when the test does. */
    openStream(bytes: string): Socket {
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
      cleanups.push(() => socket.destroy())
      socket.on('error', () => {}).write(bytes)
      return socket
    },
  }
}

type Running = Awaited<ReturnType<typeof start>>

describe('the next request of a connection is not read', () => {
  test('while its client does not read its responses', async () => {
    const server = await start()
    const client = server.openStream(request('/a'))
    await server.requestsRead(1)
    server.respond('/a', LARGE)
    client.write(request('/b'))
    await until('the bytes have arrived', () => server.accepted().bytesRead === 2 * request('/a').length)
    await settled()
    expect(server.paths()).toEqual(['/a'])
    // Its response is in progress, so that no other client takes its place.
    expect(ClientConnection.of(server.accepted())?.waitsFor).toBe('response')
    client.resume()
    await server.requestsRead(2)
  })

  test('before the response to a request with a body, also if an earlier request gets its response first', async () => {
    const server = await start()
    const client = server.open(request('/a') + post('/b', 'abc') + request('/c'))
    await server.requestsRead(2)
    server.respond('/a')
    await client.answers(1)
    await settled()
    expect(server.paths()).toEqual(['/a', '/b'])
    server.respond('/b')
    await server.requestsRead(3)
    server.respond('/c')
    expect((await client.answers(3)).map(({ body }) => body)).toEqual(['/a', '/b', '/c'])
  })

  test('while Node’s server has paused the connection, because much waits to be written', async () => {
    const server = await start()
    const client = server.open(request('/a') + request('/b') + request('/c'))
    await server.requestsRead(3)
    server.respond('/c', MEDIUM)
    client.send(request('/d') + request('/e'))
    await server.requestsRead(4)
    server.respond('/a')
    await client.answers(1)
    await settled()
    expect(server.paths()).toEqual(['/a', '/b', '/c', '/d'])
    server.respond('/b')
    await server.requestsRead(5)
    for (const path of ['/e', '/d']) server.respond(path)
    const bodies = (await client.answers(5)).map(({ body }) => body)
    expect(bodies).toEqual(['/a', '/b', MEDIUM, '/d', '/e'])
  })
})

test('nothing behind a request whose handler ends the connection is read', async () => {
  const server = await start()
  server.handleBy(({ socket }) => socket.destroy())
  await server.open(REQUEST.repeat(3)).untilClosed()
  expect(server.paths()).toEqual(['/'])
})

test('bytes that a paused connection delivers all the same follow those that wait', async () => {
  const server = await start({ maxReadAheadBytes: 1_000_000 })
  const client = server.open(REQUEST.repeat(MAX_PIPELINED + 1))
  await server.requestsRead(MAX_PIPELINED)
  client.send(REQUEST.slice(0, 10))
  await until('the bytes have arrived', () => server.accepted().readableLength === 10)
  server.accepted().read()
  server.respondToAll()
  client.send(REQUEST.slice(10))
  const answers = await client.answers(MAX_PIPELINED + 2)
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: MAX_PIPELINED + 2 }, () => 200))
})

test('a connection that was reset gives back its part of the read-ahead budget', async () => {
  const server = await start()
  const client = server.open(REQUEST.repeat(60))
  await server.requestsRead(MAX_PIPELINED)
  client.socket.resetAndDestroy()
  await until('the connection has closed', () => server.accepted().closed)
  server.respondToAll()
  expect(await server.open(REQUEST.repeat(80)).answers(80)).toHaveLength(80)
})

test.each([
  ['HTTP/1.1', request('/', 'Connection: close')],
  ['HTTP/1.0', REQUEST.replace('1.1', '1.0')],
])('nothing behind the last request of a client is read or rejected (%s)', async (_, bytes) => {
  const server = await start()
  const client = server.open(bytes + REQUEST)
  await server.requestsRead(1)
  server.respond('/')
  expect((await client.untilClosed()).map(({ status }) => status)).toEqual([200])
  expect([server.pending.length, server.faults]).toEqual([1, []])
})

describe.each([
  ['the gateway closes the connection', REQUEST, true, [200]],
  ['the gateway closes the connection before the body is complete', post('/', 'a'), true, [200]],
  ['the gateway closes the connection before a further request', post('/', 'abc') + REQUEST, true, [200]],
  ['malformed input follows', REQUEST + MALFORMED + REQUEST, false, [200, 400]],
])(
  'each pending request gets its response before the connection closes, if %s',
  (_, bytes, closes, statuses) => {
    test.each<[string, (server: Running, client: RawClient) => unknown]>([
      ['no more', () => {}],
      [
        'more input',
        async (server, client) => {
          client.send(REQUEST)
          await until('the connection is paused', () => server.accepted().isPaused())
        },
      ],
      [
        'the end of the client’s side',
        async (server, client) => {
          client.socket.end()
          await until('the end has been read', () => server.accepted().readableEnded)
        },
      ],
      [
        'a second reason to close it',
        ({ pending }) => {
          for (const { req } of pending) closeConnectionAfter(req)
        },
      ],
    ])('and then %s', async (_more, act) => {
      const server = await start()
      const client = server.open(bytes)
      await server.requestsRead(1)
      const [response] = server.pending
      if (response === undefined) throw new Error('No request was read')
      if (closes) closeConnectionAfter(response.req)
      else await until('the input has been rejected', () => server.faults.length === 1)
      await act(server, client)
      response.end()
      expect((await client.untilClosed()).map(({ status }) => status)).toEqual(statuses)
      await settled()
      // It reads and discards what the client sends before it has noticed.
      expect(server.accepted().isPaused()).toBe(false)
      expect([server.pending.length, server.faults.length]).toEqual([1, statuses.length - 1])
    })
  },
)

describe('after its last response, a client', () => {
  const LAST = post('/', 'abc', 'Connection: close') + REQUEST

  /** The client has read the end of the server's side. */
  async function readToTheEnd() {
    const server = await start()
    server.respondToAll()
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const client = server.openStream(LAST)
    await once(client.resume(), 'end')
    await settled()
    return { client, socket: server.accepted() }
  }

  test('has a moment in which its input is discarded, so that no reset overtakes the response', async () => {
    const { client, socket } = await readToTheEnd()
    client.write(REQUEST)
    while (socket.bytesRead < LAST.length + REQUEST.length && !socket.destroyed) await settled()
    vi.advanceTimersByTime(LINGER_MS - 1)
    await settled()
    expect([socket.destroyed, socket.isPaused()]).toEqual([false, false])
    vi.advanceTimersByTime(1)
    expect(socket.destroyed).toBe(true)
  })

  test('that closes its side too is not waited for', async () => {
    const { client, socket } = await readToTheEnd()
    client.end()
    await once(socket, 'close')
    expect(vi.getTimerCount()).toBe(0)
  })

  test('that does not read it is disconnected when it has been idle, not after the time between two requests', async () => {
    const server = await start({ stallTimeoutMs: 200, responseTo: () => rawResponse(400, {}, LARGE) })
    server.openStream(request('/a') + request('/b').replace('GET', 'BREW'))
    await server.requestsRead(1)
    server.respond('/a')
    await until('the connection has closed', () => server.accepted().closed)
  })
})
