import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, IncomingMessage, type Server, ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { connect } from 'node:tls'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { rawResponse } from '../../src/http/buffered-response.ts'
import { MAX_PIPELINED } from '../../src/http/client-connection.ts'
import {
  abortConnection,
  awaitUpstream,
  type ConnectionFault,
  guardConnections,
} from '../../src/http/guard-connections.ts'
import { selfSigned } from '../support/certificates.ts'
import { RawClient } from '../support/raw-client.ts'
import { until } from '../support/until.ts'

const REQUEST = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'

let server: Server
let url: string
const faults: ConnectionFault[] = []
const pending: ServerResponse[] = []
const clients: RawClient[] = []
let responding: NodeJS.Timeout | undefined

beforeEach(async () => {
  faults.length = 0
  pending.length = 0
  server = createServer((_request, response) => pending.push(response))
  guardConnections(server, {
    stallTimeoutMs: 10_000,
    maxReadAheadBytes: 100 * REQUEST.length,
    responseTo: fault => {
      faults.push(fault)
      return rawResponse(400, {}, fault)
    },
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('A TCP server has a port')
  url = `http://127.0.0.1:${address.port}`
})
afterEach(() => {
  clearInterval(responding)
  for (const client of clients.splice(0)) client.end()
  server.close()
})

function open(bytes: string): RawClient {
  const client = new RawClient(url)
  clients.push(client)
  client.send(bytes)
  return client
}

function respondToAll(): void {
  for (const response of pending.splice(0)) response.end()
}

test('a connection has a limited number of pending requests; the next one is read after a response', async () => {
  const client = open(REQUEST.repeat(MAX_PIPELINED + 3))
  await until('the limit of pending requests is reached', () => pending.length === MAX_PIPELINED)
  pending[0]?.end()
  await until('one more has been read', () => pending.length === MAX_PIPELINED + 1)
  const readInAll = pending.length
  respondToAll()
  await until('the others have been read', () => pending.length === MAX_PIPELINED + 3 - readInAll)
  respondToAll()
  expect(await client.answers(MAX_PIPELINED + 3)).toHaveLength(MAX_PIPELINED + 3)
})

test('the response to a CONNECT follows those to the requests before it', async () => {
  const client = open(`${REQUEST.repeat(2)}CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n`)
  await until('the requests before it have been read', () => pending.length === 2)
  expect(faults).toEqual([])
  respondToAll()
  expect((await client.untilClosed()).map(({ status }) => status)).toEqual([200, 200, 400])
  expect(faults).toEqual(['unknown_route'])
})

test('if the read-ahead budget is used up, the connection closes after its pending responses', async () => {
  const patient = open(REQUEST.repeat(60))
  await until('the first connection is paused', () => pending.length === MAX_PIPELINED)
  const greedy = open(REQUEST.repeat(80))
  await until('both connections are paused', () => pending.length === 2 * MAX_PIPELINED)
  responding = setInterval(respondToAll, 1)
  expect(await greedy.untilClosed()).toHaveLength(MAX_PIPELINED)
  expect(await patient.answers(60)).toHaveLength(60)
  // Both connections have released their part of the budget.
  expect(await open(REQUEST.repeat(80)).answers(80)).toHaveLength(80)
})

test('a reset connection closes each of its pending responses', async () => {
  const client = open(REQUEST.repeat(20))
  await until('the limit of pending requests is reached', () => pending.length === MAX_PIPELINED)
  let closed = 0
  for (const response of pending) response.on('close', () => closed++)
  client.socket.resetAndDestroy()
  await until('all responses have closed', () => closed === MAX_PIPELINED)
  expect(pending).toHaveLength(MAX_PIPELINED)
})

test('a response that fails while it waits for an earlier one ends the connection in its turn, without a byte of it', async () => {
  const client = open(REQUEST.repeat(3))
  await until('all requests have been read', () => pending.length === 3)
  let closed = 0
  for (const response of pending) response.on('close', () => closed++)
  const [first, second] = pending
  second?.write('a part')
  if (second !== undefined) abortConnection(second)
  client.send(REQUEST)
  await until('the failed one has closed', () => closed === 1)
  first?.end('whole')
  expect((await client.untilClosed()).map(({ body }) => body)).toEqual(['whole'])
  expect(client.received.toString()).not.toContain('a part')
  await until('no response is left', () => closed === 3)
  expect(pending).toHaveLength(3)
})

describe('a server that closes', () => {
  /** As a drain does it. */
  function close(): void {
    server.close()
    responding = setInterval(() => server.closeIdleConnections(), 10)
  }

  test('lets a client read the rest of a response that was handed over, and then closes its connection', async () => {
    const client = open(REQUEST)
    client.socket.pause()
    await until('the request has been read', () => pending.length === 1)
    pending[0]?.end('x'.repeat(8_000_000))
    close()
    client.socket.resume()
    expect((await client.untilClosed()).map(({ body }) => body.length)).toEqual([8_000_000])
  })

  test('closes an idle connection, and answers a request of which a part has arrived', async () => {
    const idle = open(REQUEST)
    await until('its request has been read', () => pending.length === 1)
    respondToAll()
    await idle.answers(1)
    const late = open(`${REQUEST}GET / HTTP/1.1\r\n`)
    await until('the first of two has been read', () => pending.length === 1)
    respondToAll()
    await late.answers(1)
    close()
    await idle.untilClosed()
    expect(late.closed).toBe(false)
    late.send('Host: a\r\n\r\n')
    await until('the second has been read', () => pending.length === 1)
    respondToAll()
    expect(await late.untilClosed()).toHaveLength(2)
  })
})

test.each(['CONNECT a:1', 'GET /'])(
  'a client that resets its connection after the response to %s does not end the process',
  async line => {
    const errors: unknown[] = []
    const note = (error: unknown) => errors.push(error)
    process.on('uncaughtException', note)
    const sockets: Socket[] = []
    server.on('connection', socket => sockets.push(socket))
    const client = open(`${line} HTTP/1.1\r\nHost: a:1\r\n\r\n`)
    if (line.startsWith('GET')) await until('the request has been read', () => pending.length === 1)
    respondToAll()
    await client.answers(1)
    client.socket.resetAndDestroy()
    await until(
      'the connection has closed',
      () => sockets.length === 1 && sockets.every(socket => socket.closed),
    )
    process.off('uncaughtException', note)
    expect(errors).toEqual([])
  },
)

test('a request whose body is cut off is rejected, after the responses before it', async () => {
  const client = open(`${REQUEST}POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc`)
  client.socket.end()
  await until('both have been read', () => pending.length === 2)
  pending[0]?.end()
  const responses = await client.untilClosed()
  expect(responses.map(({ status }) => status)).toEqual([200, 400])
  expect(faults).toEqual(['malformed_request'])
})

test('a request whose response came before the end of its body gets no second response', async () => {
  const client = open(`POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`)
  await until('the request has been read', () => pending.length === 1)
  respondToAll()
  await client.answers(1)
  client.send('no chunk\r\n')
  expect(await client.untilClosed()).toHaveLength(1)
  expect(faults).toEqual([])
})

test('a request that follows a body in the same segment is read after the response to the body', async () => {
  const client = open(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc${REQUEST}`)
  await until('the first has been read', () => pending.length === 1)
  const [first] = pending
  first?.req.resume()
  first?.end()
  await until('the second has been read', () => pending.length === 2)
  pending[1]?.end()
  expect((await client.answers(2)).map(({ status }) => status)).toEqual([200, 200])
})

test('a body sent with Connection: close is read, and its response is the last', async () => {
  const post = 'POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc'
  const client = open(post + REQUEST)
  await until('the first has been read', () => pending.length === 1)
  const [first] = pending
  first?.req.resume()
  await until('its body is complete', () => first?.req.complete === true)
  first?.end()
  expect((await client.untilClosed()).map(({ status }) => status)).toEqual([200])
  expect(pending).toHaveLength(1)
})

test.each([
  ['with a body', 'POST', 'Content-Length: 3', 'close'],
  ['of a client that closes', 'GET', 'Connection: close', 'close'],
  ['that may be followed by another', 'GET', 'X: y', 'keep-alive'],
])(
  'a request %s that expects 100-continue gets its response without one: Connection: %s',
  async (_, method, line, connection) => {
    const client = open(`${method} / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n${line}\r\n\r\n`)
    await until('the request has been read', () => pending.length === 1)
    respondToAll()
    const [answer] = await client.answers(1)
    expect(answer?.status).toBe(200)
    expect(answer?.head.match(/^connection: .*$/gim)).toEqual([
      expect.stringMatching(new RegExp(`^connection: ${connection}$`, 'i')),
    ])
  },
)

test('only the guard responds to input that is no request', () => {
  const other = createServer()
  other.on('clientError', () => expect.unreachable())
  guardConnections(other, { stallTimeoutMs: 10_000, responseTo: fault => fault })
  const socket = new Socket()
  other.emit('clientError', new Error('Parse Error'), socket)
  expect(socket.destroyed).toBe(true)
})

test('two Host fields are rejected only where the listener’s own handler does not do it', async () => {
  open('GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n')
  await until('the request has been read', () => pending.length === 1)
  expect(faults).toEqual([])
})

test.each(['data', 'end'])('a version of Node whose server does not read %s itself is refused', event => {
  const other = createServer()
  other.removeAllListeners('connection')
  other.on('connection', socket => socket.on(event === 'data' ? 'end' : 'data', () => {}))
  guardConnections(other, { stallTimeoutMs: 10_000, responseTo: fault => fault })
  expect(() => other.emit('connection', new Socket())).toThrow('this Node version is unsupported')
})

test('a request on a connection without a guard is an error, and may wait for the upstream', () => {
  const message = new IncomingMessage(new Socket())
  const response = new ServerResponse(message)
  expect(() => server.emit('request', message, response)).toThrow('The connection has no guard')
  expect(awaitUpstream({ response, observation: { isInFlight: true } })).toBe(true)
})

async function startTls(): Promise<{ port: number; ca: Buffer; stop: () => void }> {
  const certificates = await selfSigned()
  const [cert, key] = [readFileSync(certificates.certFile), readFileSync(certificates.keyFile)]
  const secure = createTlsServer({ cert, key, requireHostHeader: false }, (_request, response) =>
    pending.push(response),
  )
  guardConnections(secure, { stallTimeoutMs: 10_000, responseTo: fault => rawResponse(400, {}, fault) })
  await once(secure.listen(0, '127.0.0.1'), 'listening')
  // It listens on an address and a port.
  const { port } = secure.address() as AddressInfo
  const stop = () => {
    secure.close()
    certificates.remove()
  }
  return { port, ca: cert, stop }
}

test('a client that speaks plain HTTP to a TLS server loses its connection, and ends nothing else', async () => {
  const errors: unknown[] = []
  const note = (error: unknown) => errors.push(error)
  process.on('uncaughtException', note)
  const { port, stop } = await startTls()
  const client = new RawClient(`http://127.0.0.1:${port}`)
  client.send(REQUEST)
  expect(await client.untilClosed()).toEqual([])
  process.off('uncaughtException', note)
  stop()
  expect([pending, errors]).toEqual([[], []])
})

test('a TLS server applies the same rules to its connections', async () => {
  const { port, ca, stop } = await startTls()
  const socket = connect({ port, ca, servername: 'localhost' })
  let received = ''
  socket.on('data', chunk => {
    received += chunk.toString('latin1')
  })
  const closed = once(socket, 'close')
  socket.end(`${REQUEST.repeat(20)}GET /  HTTP/1.1\r\nHost: a\r\n\r\n${REQUEST}`)
  await until('the limit of pending requests is reached', () => pending.length === MAX_PIPELINED)
  responding = setInterval(respondToAll, 1)
  await closed
  const statuses = [...received.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status))
  expect(statuses).toEqual([...Array.from({ length: 20 }, () => 200), 400])
  stop()
})

const OFFER = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n'
const CHUNKED_OFFER = OFFER.replace('GET', 'POST').replace('Host', 'Transfer-Encoding: chunked\r\nHost')

describe('input behind an offer to upgrade is read as it is behind any other request', () => {
  test.each([
    ['an unknown method', 'BREW / HTTP/1.1\r\nHost: a\r\n\r\n', 'malformed_request'],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'malformed_request'],
    ['a byte that begins no request', '}', 'malformed_request'],
    ['a field name with a space', 'GET / HTTP/1.1\r\nHost: a\r\nX-A : b\r\n\r\n', 'malformed_request'],
    ['a head that is too large', `GET / HTTP/1.1\r\nX-A: ${'a'.repeat(40_000)}`, 'headers_too_large'],
  ] as const)('%s is rejected, and the connection closes', async (_, input, fault) => {
    for (const offer of [
      OFFER,
      OFFER.toUpperCase(),
      OFFER.toLowerCase().replace('get / http', 'GET / HTTP'),
    ]) {
      faults.length = 0
      responding = setInterval(respondToAll, 1)
      const waiting = open(offer)
      await waiting.answers(1)
      waiting.send(input)
      expect((await waiting.untilClosed()).map(({ status }) => status)).toEqual([200, 400])
      expect((await open(offer + input).untilClosed()).map(({ status }) => status)).toEqual([200, 400])
      clearInterval(responding)
      expect(faults).toEqual([fault, fault])
    }
  })

  test('a head that is cut off is rejected', async () => {
    responding = setInterval(respondToAll, 1)
    const client = open(`${OFFER}GET / HT`)
    await client.answers(1)
    client.socket.end()
    expect((await client.untilClosed()).map(({ status }) => status)).toEqual([200, 400])
  })

  test('a malformed body of the request with the offer is rejected', async () => {
    const client = open(`${CHUNKED_OFFER}no chunk\r\n`)
    expect((await client.untilClosed()).map(({ status }) => status)).toEqual([400])
    expect(faults).toEqual(['malformed_request'])
  })

  test('a body is the same, also where it contains what looks like an offer', async () => {
    const body = `a\r\nUpgrade: h2c\r\n\r\n${OFFER}`
    const posts = [
      OFFER.replace('Host', `Content-Length: ${body.length}\r\nHost`) + body,
      `${CHUNKED_OFFER}${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
    ]
    for (const post of posts) {
      const client = open(post + REQUEST)
      await until('the head has been read', () => pending.length === 1)
      const [first] = pending.splice(0)
      if (first === undefined) throw new Error('No request was read')
      expect(await text(first.req)).toBe(body)
      first.end()
      await until('the next request has been read', () => pending.length === 1)
      respondToAll()
      expect((await client.answers(2)).map(({ status }) => status)).toEqual([200, 200])
    }
  })

  test('no handler reads the offer, wherever a segment ends, and each other field is the same', async () => {
    const bytes = OFFER.replace('\r\n\r\n', '\r\nX-Upgrade: 1\r\nX-A: Upgrade: 2\r\n\r\n')
    const client = open('')
    for (let cut = 1; cut < bytes.length; cut++) {
      client.send(bytes.slice(0, cut))
      await new Promise(resolve => setImmediate(resolve))
      client.send(bytes.slice(cut) + REQUEST)
      await until('both requests have been read', () => pending.length === 2)
      const [offered, next] = pending.splice(0)
      expect([cut, offered?.req.headers, next?.req.headers]).toEqual([
        cut,
        {
          host: 'a',
          connection: 'Upgrade, HTTP2-Settings',
          'upgrade-ignored': 'h2c',
          'x-upgrade': '1',
          'x-a': 'Upgrade: 2',
        },
        { host: 'a' },
      ])
      offered?.end()
      next?.end()
      expect(await client.answers(2 * cut)).toHaveLength(2 * cut)
    }
  })
})
