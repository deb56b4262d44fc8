import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { connect as connectPlain, type Socket } from 'node:net'
import { connect } from 'node:tls'
import { afterEach, describe, expect, test } from 'vitest'
import { rawResponse } from '../../src/http/buffered-response.ts'
import { awaitUpstream, guardConnections } from '../../src/http/guard-connections.ts'
import { selfSigned } from '../support/certificates.ts'
import { RawClient } from '../support/raw-client.ts'
import { until } from '../support/until.ts'

const request = (path: string, ...lines: string[]) =>
  [`GET ${path} HTTP/1.1`, 'Host: a', ...lines, '', ''].join('\r\n')
/** More than the kernel buffers for a client that reads nothing. */
const LARGE = 'x'.repeat(20_000_000)
const MEDIUM = 'x'.repeat(300_000)

/** A request as its handler sees it. */
interface Pending {
  readonly path: string
  readonly response: ServerResponse
  readonly observation: { isInFlight: boolean }
  /** Whether its response has closed, complete or not. */
  closed: boolean
}

let server: Server
let url: string
const pending: Pending[] = []
const sockets: Socket[] = []
const clients: RawClient[] = []

afterEach(() => {
  for (const client of clients.splice(0)) client.end()
  pending.length = 0
  sockets.length = 0
  server.close()
})

/** Paths that begin with /upstream are forwarded at once; the test responds to all. */
async function start(abortOnClose?: boolean): Promise<void> {
  server = createServer(handle)
  await listen(server, abortOnClose)
}

async function listen(listening: Server, abortOnClose?: boolean): Promise<void> {
  guardConnections(listening, {
    stallTimeoutMs: 10_000,
    responseTo: fault => rawResponse(400, {}, fault),
    ...(abortOnClose === undefined ? {} : { abortOnClose }),
  })
  listening.on('connection', socket => sockets.push(socket))
  await once(listening.listen(0, '127.0.0.1'), 'listening')
  const address = listening.address()
  if (address === null || typeof address === 'string') throw new Error('A TCP server has a port')
  url = `http://127.0.0.1:${address.port}`
}

function handle({ url: path = '' }: IncomingMessage, response: ServerResponse): void {
  const one: Pending = { path, response, observation: { isInFlight: true }, closed: false }
  response.on('close', () => {
    one.closed = true
  })
  pending.push(one)
  if (path.startsWith('/upstream')) expect(awaitUpstream(one)).toBe(true)
}

/** Sends requests, and closes the client's side behind them. */
async function sendAndHalfClose(bytes: string, count: number): Promise<RawClient> {
  const client = new RawClient(url)
  clients.push(client)
  client.send(bytes)
  client.socket.end()
  await until('the requests and the end have been read', () => {
    return pending.length === count && sockets.at(-1)?.readableEnded === true
  })
  return client
}

function respond(path: string, body = path): void {
  const one = pending.find(other => other.path === path)
  if (one === undefined) throw new Error(`${path} was not read`)
  one.observation.isInFlight = false
  one.response.end(body)
}

const bodiesOf = async (client: RawClient) => (await client.untilClosed()).map(({ body }) => body)

describe('a client that closes its side', () => {
  test.each(['keep-alive', 'close'])(
    'has left if its request waits for the upstream (Connection: %s)',
    async connection => {
      await start(true)
      const client = await sendAndHalfClose(request('/upstream', `Connection: ${connection}`), 1)
      expect(await bodiesOf(client)).toEqual([])
      await until('the request has been aborted', () => pending[0]?.closed === true)
      expect(pending[0]?.response.writableFinished).toBe(false)
    },
  )

  test('has left if its response has begun and is not complete', async () => {
    await start(true)
    const client = new RawClient(url)
    clients.push(client)
    client.send(request('/upstream'))
    await until('the request has been read', () => pending.length === 1)
    pending[0]?.response.write('part')
    await until('the response has begun', () => client.received.includes('part'))
    client.socket.end()
    await client.untilClosed()
    await until('the request has been aborted', () => pending[0]?.closed === true)
  })

  test('gets each response of the gateway itself, whole and in order', async () => {
    await start(true)
    const client = await sendAndHalfClose(request('/a') + request('/b'), 2)
    respond('/b', MEDIUM)
    respond('/a')
    expect((await bodiesOf(client)).map(body => body.length)).toEqual([2, MEDIUM.length])
  })

  test('gets a response of the upstream that was complete before, however slowly it reads', async () => {
    await start(true)
    const client = connectPlain(Number(new URL(url).port), '127.0.0.1')
    client.write(request('/upstream'))
    await until('the request has been read', () => pending.length === 1)
    respond('/upstream', LARGE)
    // It has no reader yet, so that most of the response waits in this process.
    client.end()
    await until('the end has been read', () => sockets[0]?.readableEnded === true)
    let received = 0
    for await (const chunk of client) received += (chunk as Buffer).length
    expect(received).toBeGreaterThan(LARGE.length)
  })

  test('gets the responses before the first that waits for the upstream, and none behind it', async () => {
    await start(true)
    const client = await sendAndHalfClose(request('/a') + request('/upstream') + request('/b'), 3)
    respond('/b')
    respond('/a')
    expect(await bodiesOf(client)).toEqual(['/a'])
    await until('the others have been aborted', () => pending.every(({ closed }) => closed))
  })

  test('gets nothing if the first waits for the upstream, and all its requests are aborted', async () => {
    await start(true)
    const paths = ['/upstream/1', '/upstream/2', '/b']
    const client = await sendAndHalfClose(paths.map(path => request(path)).join(''), 3)
    expect(await bodiesOf(client)).toEqual([])
    await until('all have been aborted', () => pending.every(({ closed }) => closed))
  })

  test('before its request is forwarded, has left: the request is not forwarded', async () => {
    await start(true)
    const client = await sendAndHalfClose(request('/looked-up'), 1)
    const [one] = pending
    expect(one && awaitUpstream(one)).toBe(false)
    expect(await bodiesOf(client)).toEqual([])
    await until('the request has been aborted', () => one?.closed === true)
  })

  test('gets the responses before a request that is not forwarded any more', async () => {
    await start(true)
    const client = await sendAndHalfClose(request('/a') + request('/looked-up') + request('/b'), 3)
    const one = pending[1]
    expect(one && awaitUpstream(one)).toBe(false)
    respond('/b')
    respond('/a')
    expect(await bodiesOf(client)).toEqual(['/a'])
    await until('the others have been aborted', () => pending.every(({ closed }) => closed))
  })

  test.each([false, undefined])('gets each response with abortOnClose: %s', async abortOnClose => {
    await start(abortOnClose)
    const client = await sendAndHalfClose(request('/upstream/1') + request('/upstream/2') + request('/b'), 3)
    for (const path of ['/b', '/upstream/2', '/upstream/1']) respond(path)
    expect(await bodiesOf(client)).toEqual(['/upstream/1', '/upstream/2', '/b'])
  })

  test('has left over TLS too, and gets the responses of the gateway itself', async () => {
    const certificates = await selfSigned()
    const [cert, key] = [readFileSync(certificates.certFile), readFileSync(certificates.keyFile)]
    server = createTlsServer({ cert, key }, handle)
    await listen(server, true)
    const received: string[] = []
    const closed = ['/upstream', '/a'].map(path => {
      const socket = connect({ port: Number(new URL(url).port), ca: cert, servername: 'localhost' })
      socket.on('data', chunk => received.push(chunk.toString('latin1')))
      socket.end(request(path))
      return once(socket, 'close')
    })
    await until('the forwarded request has been aborted', () =>
      pending.some(({ path, closed: isClosed }) => path === '/upstream' && isClosed),
    )
    await until('the other has been read', () => pending.length === 2)
    respond('/a')
    await Promise.all(closed)
    expect(received.join('')).toMatch(/^HTTP\/1\.1 200 [\s\S]*\/a$/)
    certificates.remove()
  })
})
