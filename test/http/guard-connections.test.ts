import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Socket } from 'node:net'
import { connect } from 'node:tls'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { MAX_UNANSWERED } from '../../src/http/client-connection.ts'
import { type ConnectionFault, guardConnections } from '../../src/http/guard-connections.ts'
import { rawAnswer } from '../../src/http/raw-answer.ts'
import { RawClient } from '../support/raw-client.ts'
import { Certificates } from '../support/self-signed.ts'
import { until } from '../support/until.ts'

const REQUEST = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'

let server: Server
let url: string
const faults: ConnectionFault[] = []
const unanswered: ServerResponse[] = []
const clients: RawClient[] = []
let answering: NodeJS.Timeout | undefined

beforeEach(async () => {
  faults.length = 0
  unanswered.length = 0
  server = createServer((_request, response) => unanswered.push(response))
  guardConnections(server, {
    stallTimeoutMs: 10_000,
    maxHeldBytes: 100 * REQUEST.length,
    answerTo: fault => {
      faults.push(fault)
      return rawAnswer(400, {}, fault)
    },
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('A TCP server has a port')
  url = `http://127.0.0.1:${address.port}`
})
afterEach(() => {
  clearInterval(answering)
  for (const client of clients.splice(0)) client.end()
  server.close()
})

function open(bytes: string): RawClient {
  const client = new RawClient(url)
  clients.push(client)
  client.send(bytes)
  return client
}

function answerAll(): void {
  for (const response of unanswered.splice(0)) response.end()
}

test('so many requests of a connection are read, and the next when one of them is answered', async () => {
  const client = open(REQUEST.repeat(MAX_UNANSWERED + 3))
  await until('as many as may be have been read', () => unanswered.length === MAX_UNANSWERED)
  unanswered[0]?.end()
  await until('one more has been read', () => unanswered.length === MAX_UNANSWERED + 1)
  const readInAll = unanswered.length
  answerAll()
  await until('the others have been read', () => unanswered.length === MAX_UNANSWERED + 3 - readInAll)
  answerAll()
  expect(await client.answers(MAX_UNANSWERED + 3)).toHaveLength(MAX_UNANSWERED + 3)
})

test('where all connections hold too much, one more ends after the answers that it is owed', async () => {
  const patient = open(REQUEST.repeat(60))
  await until('it is held', () => unanswered.length === MAX_UNANSWERED)
  const greedy = open(REQUEST.repeat(80))
  await until('both are held', () => unanswered.length === 2 * MAX_UNANSWERED)
  answering = setInterval(answerAll, 1)
  expect(await greedy.untilClosed()).toHaveLength(MAX_UNANSWERED)
  expect(await patient.answers(60)).toHaveLength(60)
  // What was held counts no longer.
  expect(await open(REQUEST.repeat(80)).answers(80)).toHaveLength(80)
})

test('requests whose connection is reset come to an end, each of them', async () => {
  const client = open(REQUEST.repeat(20))
  await until('as many as may be have been read', () => unanswered.length === MAX_UNANSWERED)
  let closed = 0
  for (const response of unanswered) response.on('close', () => closed++)
  client.socket.resetAndDestroy()
  await until('all have closed', () => closed === MAX_UNANSWERED)
  expect(unanswered).toHaveLength(MAX_UNANSWERED)
})

test.each(['CONNECT a:1', 'GET /'])(
  'a client that resets its connection after the answer to %s ends no process',
  async line => {
    const errors: unknown[] = []
    const note = (error: unknown) => errors.push(error)
    process.on('uncaughtException', note)
    const sockets: Socket[] = []
    server.on('connection', socket => sockets.push(socket))
    const client = open(`${line} HTTP/1.1\r\nHost: a:1\r\n\r\n`)
    if (line.startsWith('GET')) await until('it has been read', () => unanswered.length === 1)
    answerAll()
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

test('a request whose body is cut off is refused, after the answers before it', async () => {
  const client = open(`${REQUEST}POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc`)
  client.socket.end()
  await until('both have been read', () => unanswered.length === 2)
  unanswered[0]?.end()
  const answers = await client.untilClosed()
  expect(answers.map(({ status }) => status)).toEqual([200, 400])
  expect(faults).toEqual(['malformed_request'])
})

test('a request that was answered before its body was whole gets no second answer', async () => {
  const client = open(`POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`)
  await until('it has been read', () => unanswered.length === 1)
  answerAll()
  await client.answers(1)
  client.send('no chunk\r\n')
  expect(await client.untilClosed()).toHaveLength(1)
  expect(faults).toEqual([])
})

test('a body may be followed by a request in its segment, which is read once the body has its answer', async () => {
  const client = open(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc${REQUEST}`)
  await until('the first has been read', () => unanswered.length === 1)
  const [first] = unanswered
  first?.req.resume()
  first?.end()
  await until('the second has been read', () => unanswered.length === 2)
  unanswered[1]?.end()
  expect((await client.answers(2)).map(({ status }) => status)).toEqual([200, 200])
})

test('a body of a request that asks to close is read, and its answer is the last', async () => {
  const post = 'POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc'
  const client = open(post + REQUEST)
  await until('the first has been read', () => unanswered.length === 1)
  const [first] = unanswered
  first?.req.resume()
  await until('its body is whole', () => first?.req.complete === true)
  first?.end()
  expect((await client.untilClosed()).map(({ status }) => status)).toEqual([200])
  expect(unanswered).toHaveLength(1)
})

test('a server with TLS reads and ends its connections in the same way', async () => {
  const certificates = new Certificates()
  const { certFile, keyFile } = certificates
  const secure = createTlsServer(
    { cert: readFileSync(certFile), key: readFileSync(keyFile), requireHostHeader: false },
    (_request, response) => unanswered.push(response),
  )
  guardConnections(secure, { stallTimeoutMs: 10_000, answerTo: fault => rawAnswer(400, {}, fault) })
  await once(secure.listen(0, '127.0.0.1'), 'listening')
  const address = secure.address()
  if (address === null || typeof address === 'string') throw new Error('A TCP server has a port')
  const socket = connect({ port: address.port, ca: readFileSync(certFile), servername: 'localhost' })
  let received = ''
  socket.on('data', chunk => {
    received += chunk.toString('latin1')
  })
  const closed = once(socket, 'close')
  socket.end(`${REQUEST.repeat(20)}GET /  HTTP/1.1\r\nHost: a\r\n\r\n${REQUEST}`)
  await until('as many as may be have been read', () => unanswered.length === MAX_UNANSWERED)
  answering = setInterval(answerAll, 1)
  await closed
  const statuses = [...received.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status))
  expect(statuses).toEqual([...Array.from({ length: 20 }, () => 200), 400])
  secure.close()
  certificates.remove()
})
