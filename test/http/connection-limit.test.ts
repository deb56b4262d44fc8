import { EventEmitter, once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, connect, Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { afterEach, expect, test } from 'vitest'
import { rawResponse } from '../../src/http/buffered-response.ts'
import { limitConnections, type ReachedLimit } from '../../src/http/connection-limit.ts'
import { guardConnections } from '../../src/http/guard-connections.ts'
import { requestTimeouts } from '../../src/http/server-options.ts'
import { selfSigned } from '../support/certificates.ts'
import { collectGarbage } from '../support/expose-gc.ts'
import { RawClient } from '../support/raw-client.ts'
import { until } from '../support/until.ts'

const HEAD = 'GET / HTTP/1.1\r\nHost: a\r\n'
const REQUEST = `${HEAD}\r\n`
const BODY_LACKS = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab'
const MAX = 4

const cleanups: (() => void)[] = []
afterEach(() => {
  for (const cleanUp of cleanups.splice(0)) cleanUp()
})

interface Limits {
  readonly maxConnections?: number
  readonly maxPerAddress?: number
  readonly exempt?: string
}

/** @param server responds only when the test does */
async function listen(server: Server, { maxConnections = MAX, maxPerAddress, exempt }: Limits = {}) {
  const pending: ServerResponse[] = []
  const closed: ReachedLimit[] = []
  const sockets: Socket[] = []
  let accepted = 0
  server.on('connection', socket => sockets.push(socket))
  server.on('request', (request, response) => {
    request.resume()
    pending.push(response)
  })
  guardConnections(server, { stallTimeoutMs: 10_000, responseTo: fault => rawResponse(400, {}, fault) })
  limitConnections(server, {
    maxConnections,
    maxPerAddress: maxPerAddress ?? null,
    isExempt: address => address === exempt,
    onClosed: limit => closed.push(limit),
    onAccepted: () => accepted++,
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  cleanups.push(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  return {
    port,
    pending,
    closed,
    sockets,
    /** Waits until the server has seen so many connections. */
    seen: (count: number) =>
      until(`the server has seen ${count} connections`, () => accepted + closed.length >= count),
    open(bytes: string): RawClient {
      const client = new RawClient(`http://127.0.0.1:${port}`)
      cleanups.push(() => client.end())
      client.send(bytes)
      return client
    },
  }
}

/** Opens the connections one after the other. */
async function openAll(server: Awaited<ReturnType<typeof listen>>, bytes: readonly string[]) {
  const clients: RawClient[] = []
  for (const each of bytes) {
    clients.push(server.open(each))
    await server.seen(clients.length)
  }
  return clients
}

test.each([
  ['heads', HEAD],
  ['bodies', BODY_LACKS],
  ['no byte', ''],
])(
  'at the limit a new client replaces the oldest that has sent an incomplete request: %s',
  async (_, bytes) => {
    const server = await listen(createServer())
    const incomplete = await openAll(
      server,
      Array.from({ length: MAX }, () => bytes),
    )
    const client = server.open(REQUEST)
    await until('its request is read', () => server.pending.some(({ req }) => req.method === 'GET'))
    for (const response of server.pending) response.end()
    const [answer] = await client.answers(1)
    expect(answer?.status).toBe(200)
    await incomplete[0]?.untilClosed()
    expect(incomplete.map(({ closed }) => closed)).toEqual([true, false, false, false])
    expect(server.closed).toEqual(['listener'])
  },
)

test.each([
  ['an incomplete request', HEAD],
  ['sent nothing', ''],
])('an idle connection is replaced only if no other client has %s', async (_, bytes) => {
  const server = await listen(createServer())
  const idle = await openAll(server, [REQUEST, REQUEST, REQUEST])
  await until('the requests are read', () => server.pending.length === 3)
  for (const response of server.pending.splice(0)) response.end()
  await Promise.all(idle.map(client => client.answers(1)))
  const [incomplete] = [server.open(bytes)]
  await server.seen(4)
  const client = server.open(REQUEST)
  await incomplete?.untilClosed()
  await until('the request of the new client is read', () => server.pending.length === 1)
  const another = server.open(REQUEST)
  await idle[0]?.untilClosed()
  await until('the request of another is read', () => server.pending.length === 2)
  expect([...idle, client, another].map(({ closed }) => closed)).toEqual([true, false, false, false, false])
})

test('a connection with a request in progress is never replaced: the new one closes', async () => {
  const server = await listen(createServer())
  const busy = await openAll(server, [REQUEST, REQUEST, REQUEST, REQUEST])
  await until('the requests are read', () => server.pending.length === MAX)
  expect(await server.open(REQUEST).untilClosed()).toEqual([])
  for (const response of server.pending.splice(0)) response.end()
  for (const client of busy) expect((await client.answers(1))[0]?.status).toBe(200)
  // The place of one that has left is free.
  busy[0]?.end()
  await until('its place is free', async () => {
    const client = server.open(REQUEST)
    await until('it is read or closed', () => client.closed || server.pending.length > 0)
    return !client.closed
  })
})

test('behind many requests in progress, an incomplete one is found by one of the next new connections', async () => {
  const server = await listen(createServer(), { maxConnections: 71 })
  for (let count = 1; count <= 70; count++) server.open(REQUEST)
  await until('the requests are read', () => server.pending.length === 70)
  const incomplete = server.open(HEAD)
  await server.seen(71)
  // The first examines 64 of those before it, and the second the others.
  expect(await server.open(REQUEST).untilClosed()).toEqual([])
  expect(incomplete.closed).toBe(false)
  server.open(REQUEST)
  await incomplete.untilClosed()
  await until('its request is read', () => server.pending.length === 71)
})

function openFrom(localAddress: string, port: number, bytes: string): Socket {
  const socket = connect({ host: '127.0.0.1', port, localAddress })
  socket.on('error', () => {}).resume()
  socket.write(bytes)
  cleanups.push(() => socket.destroy())
  return socket
}

test('one address cannot use the connections of others', async () => {
  const server = await listen(createServer(), { maxPerAddress: 2 })
  const first = openFrom('127.0.0.2', server.port, REQUEST)
  await server.seen(1)
  openFrom('127.0.0.2', server.port, REQUEST)
  await until('both requests are read', () => server.pending.length === 2)
  const third = openFrom('127.0.0.2', server.port, REQUEST)
  await once(third, 'close')
  const other = openFrom('127.0.0.3', server.port, HEAD)
  await server.seen(4)
  expect([first.closed, other.closed]).toEqual([false, false])
  expect(server.closed).toEqual(['address'])
})

test('connections that have closed no longer count for their address', async () => {
  const server = await listen(createServer(), { maxPerAddress: 2 })
  for (let count = 1; count <= 6; count += 2) {
    const [one, other] = [openFrom('127.0.0.2', server.port, HEAD), openFrom('127.0.0.2', server.port, HEAD)]
    await server.seen(count + 1)
    for (const socket of [one, other]) socket.destroy()
    await until('both places are free', () => server.sockets.every(socket => socket.closed))
  }
  openFrom('127.0.0.2', server.port, HEAD)
  await server.seen(7)
  expect(server.closed).toEqual([])
})

test('an address of which one connection has closed keeps its limit for the others', async () => {
  const server = await listen(createServer(), { maxPerAddress: 2 })
  openFrom('127.0.0.2', server.port, REQUEST)
  await until('its request is read', () => server.pending.length === 1)
  const leaving = openFrom('127.0.0.2', server.port, HEAD)
  await server.seen(2)
  leaving.destroy()
  await until('its place is free', () => server.sockets[1]?.closed === true)
  openFrom('127.0.0.2', server.port, REQUEST)
  await until('both requests are read', () => server.pending.length === 2)
  await once(openFrom('127.0.0.2', server.port, REQUEST), 'close')
  expect(server.closed).toEqual(['address'])
})

test('a trusted proxy has no limit of its own, since its connections are those of many clients', async () => {
  const server = await listen(createServer(), { maxPerAddress: 1, exempt: '127.0.0.2' })
  for (let count = 1; count <= MAX; count++) {
    openFrom('127.0.0.2', server.port, HEAD)
    await server.seen(count)
  }
  expect(server.closed).toEqual([])
})

test('over TLS, clients that do not complete their handshake or request are replaced', async () => {
  const certificates = await selfSigned()
  cleanups.push(() => certificates.remove())
  const [key, cert] = [readFileSync(certificates.keyFile), readFileSync(certificates.certFile)]
  const server = await listen(createTlsServer({ key, cert }) as unknown as Server)
  const open = (bytes: string) => {
    const socket = connectTls({ host: '127.0.0.1', port: server.port, ca: cert, servername: 'localhost' })
    socket.on('error', () => {})
    socket.write(bytes)
    cleanups.push(() => socket.destroy())
    return socket
  }
  // The second connects before the handshake of the first.
  const served = [open(REQUEST), open(REQUEST)]
  await until('their requests are read', () => server.pending.length === 2)
  server.open('')
  await server.seen(3)
  open(HEAD)
  await server.seen(MAX)
  for (let count = 3; count <= 4; count++) {
    open(REQUEST)
    await until('the request of another client is read', () => server.pending.length === count)
  }
  expect(served.map(({ closed }) => closed)).toEqual([false, false])
  expect(server.closed).toEqual(['listener', 'listener'])
})

/** A listener that accepts the sockets of the test, so that many connections arrive in one turn of the event loop. */
function acceptor(maxConnections: number) {
  const server = createServer().removeAllListeners('connection')
  const closed: ReachedLimit[] = []
  limitConnections(server, {
    maxConnections,
    maxPerAddress: MAX,
    isExempt: () => false,
    onClosed: limit => closed.push(limit),
    onAccepted: () => {},
  })
  const accept = <Accepted extends object>(socket: Accepted, remoteAddress: string): Accepted => {
    Object.defineProperties(socket, { remoteAddress: { value: remoteAddress }, remotePort: { value: 1 } })
    server.emit('connection', socket)
    return socket
  }
  return { server, closed, accept }
}

test('each of the clients that connect at once replaces another', async () => {
  const { accept, closed } = acceptor(3)
  const sockets = [1, 2, 3, 4, 5].map(host => accept(new Socket(), `10.0.0.${host}`))
  expect(sockets.map(({ destroyed }) => destroyed)).toEqual([true, true, false, false, false])
  expect(closed).toEqual(['listener', 'listener'])
  // A fault of the listeners before would keep these from being called.
  await Promise.all(sockets.slice(0, 2).map(socket => once(socket, 'close')))
})

test('a TLS client whose address is lost before its handshake ends is served all the same', () => {
  const { server, accept, closed } = acceptor(1)
  expect(server.emit('secureConnection', new Socket())).toBe(true)
  accept(new Socket(), '10.0.0.1')
  expect(closed).toEqual([])
})

test('nothing is kept of clients that have left, however many networks they come from', () => {
  const { accept } = acceptor(1_000)
  const visit = (count: number) => {
    for (let visitor = 0; visitor < count; visitor++) {
      accept(
        new EventEmitter(),
        `2001:db8:${(visitor >> 8).toString(16)}:${(visitor & 255).toString(16)}::1`,
      ).emit('close')
    }
    collectGarbage()
    return process.memoryUsage().heapUsed
  }
  const before = visit(100)
  expect(visit(30_000) - before).toBeLessThan(1_500_000)
})

test.each([
  ['head', 'GET / HTTP/1.1\r\nHost: a\r\nX: '],
  ['body', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n'],
])('the time for a request covers its %s, also if bytes keep coming', async (_, bytes) => {
  const timeoutMs = 200
  const server = await listen(createServer(requestTimeouts(timeoutMs)))
  const client = server.open(bytes)
  const trickling = setInterval(() => client.send('x'), timeoutMs / 10)
  cleanups.push(() => clearInterval(trickling))
  await client.untilClosed()
})
