import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { getDefaultHighWaterMark } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createServer as createTlsServer, TLSSocket } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, expect, onTestFinished, test, vi } from 'vitest'
import {
  READ_BYTES,
  type SocketConnector,
  socketConnector,
} from '../../../src/upstream/pool/upstream-socket.ts'
import { makeCertificates } from '../../support/certificates.ts'
import { freePort } from '../../support/free-port.ts'
import { keepAliveMs } from '../../support/tcp-table.ts'
import { until } from '../../support/until.ts'

const certificates = await makeCertificates()
const tls = { ca: readFileSync(certificates.caFile) }
const PROTOCOLS = ['http:', 'https:']
const connector = socketConnector('localhost', 30_000, tls)

let server: Server
const opened: Socket[] = []

afterEach(() => {
  for (const socket of opened.splice(0)) socket.destroy()
  server?.close()
})
afterAll(() => certificates.remove())

interface Wish {
  readonly protocol?: string
  readonly accepts?: (bytes: Uint8Array) => boolean
  readonly connect?: SocketConnector
}

function connected(
  port: number,
  { protocol = 'http:', accepts = () => true, connect = connector }: Wish = {},
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    connect({ hostname: '127.0.0.1', protocol, port: String(port), accepts }, (error, socket) => {
      if (error !== null) return reject(error)
      opened.push(socket)
      resolve(socket)
    })
  })
}

async function listen(protocol: string): Promise<number> {
  const options = { ...certificates.server }
  server = protocol === 'https:' ? createTlsServer(options) : createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return portOf(server)
}

/** It listens on an address and a port. */
const portOf = (listening: Server) => (listening.address() as AddressInfo).port

/** Both ends of a connection. */
async function pair(protocol: string, wish: Wish = {}) {
  const port = await listen(protocol)
  const accepted = once(server, protocol === 'https:' ? 'secureConnection' : 'connection')
  const socket = await connected(port, { protocol, ...wish })
  const [upstream]: Socket[] = await accepted
  if (upstream === undefined) throw new Error('Nothing was accepted')
  opened.push(upstream.setNoDelay(true).on('error', () => {}))
  return { socket, upstream }
}

test.each(PROTOCOLS)(
  '%s a part of a response that is still held is not overwritten by what comes next',
  async protocol => {
    const { socket, upstream } = await pair(protocol)
    const texts = ['of one client', 'and of another', 'and of a third', 'and so on']
    const read: Buffer[] = []
    for (const text of texts) {
      upstream.write(text)
      await once(socket, 'readable')
      read.push(socket.read())
    }
    expect(read.map(String)).toEqual(texts)
  },
)

test.each(PROTOCOLS)(
  '%s where nothing is read, the sender is held up; then all of it comes, in order',
  async protocol => {
    const { socket, upstream } = await pair(protocol)
    const sent = Buffer.alloc(32_000_000, Buffer.from(Array.from({ length: 251 }, (_, byte) => byte)))
    upstream.end(sent)
    await once(socket, 'readable')
    for (let turn = 0; turn < 100; turn++) await nextTurn()
    // OpenSSL hands over all records that it has, at most 64 KiB.
    expect(socket.readableLength).toBeLessThanOrEqual(protocol === 'https:' ? 5 * READ_BYTES : 2 * READ_BYTES)
    expect(upstream.writableLength).toBeGreaterThan(0)

    const taken: Buffer[] = []
    socket.on('data', bytes => taken.push(bytes))
    await once(socket, 'end')
    expect(Buffer.concat(taken).equals(sent)).toBe(true)
  },
)

test.each(PROTOCOLS)(
  '%s bytes that are not accepted are never read, and end the connection',
  async protocol => {
    const seen: string[] = []
    const accepts = (bytes: Uint8Array) => {
      seen.push(Buffer.from(bytes).toString())
      return seen.length < 2
    }
    const { socket, upstream } = await pair(protocol, { accepts })
    const read: string[] = []
    socket.on('data', bytes => read.push(String(bytes)))
    const failed = once(socket, 'error')
    upstream.write('good')
    await once(socket, 'data')
    upstream.write('bad')
    expect(await failed).toMatchObject([{ kind: 'protocol' }])
    expect(seen).toEqual(['good', 'bad'])
    expect(read).toEqual(['good'])
  },
)

test('a second connection resumes the TLS session of the first', async () => {
  const connect = socketConnector('localhost', 30_000, tls)
  const { socket, upstream } = await pair('https:', { connect })
  // The session follows the handshake, with the first bytes.
  const session = once(socket, 'session')
  upstream.write('read')
  await session
  const next = await connected(portOf(server), { protocol: 'https:', connect })
  expect([socket, next].map(each => each instanceof TLSSocket && each.isSessionReused())).toEqual([
    false,
    true,
  ])
})

test('HTTP/1.1 is agreed on with a server that also speaks HTTP/2', async () => {
  server = createTlsServer({ ...certificates.server, ALPNProtocols: ['h2', 'http/1.1'] })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const socket = await connected(portOf(server), { protocol: 'https:' })
  expect(socket instanceof TLSSocket && socket.alpnProtocol).toBe('http/1.1')
})

test.each(PROTOCOLS)('%s an error of a connection that was made is left to who uses it', async protocol => {
  const { socket } = await pair(protocol)
  expect(socket.listenerCount('error')).toBe(0)
})

test('a certificate is checked for the name of the upstream, not for its address', async () => {
  const port = await listen('https:')
  const connect = socketConnector('elsewhere.example', 1000, tls)
  await expect(connected(port, { protocol: 'https:', connect })).rejects.toMatchObject({
    code: 'ERR_TLS_CERT_ALTNAME_INVALID',
  })
})

test.each([
  ['localhost', 'localhost'],
  // An address is no server name (RFC 6066, section 3).
  ['127.0.0.1', false],
])('the TLS handshake with the upstream %s sends the server name %s', async (name, serverName) => {
  const { upstream } = await pair('https:', { connect: socketConnector(name, 30_000, tls) })
  expect(upstream instanceof TLSSocket && upstream.servername).toBe(serverName)
})

test.each(PROTOCOLS)('%s a connection that is refused fails with the system’s own error', async protocol => {
  const port = await freePort()
  await expect(connected(port, { protocol })).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})

test.each(PROTOCOLS)('%s no deadline is left of a connection that was made, or refused', async protocol => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  await pair(protocol)
  await expect(connected(await freePort(), { protocol })).rejects.toThrow()
  expect(vi.getTimerCount()).toBe(0)
})

test.each(PROTOCOLS)('%s a connection that is silent for a minute is probed', async protocol => {
  const { socket } = await pair(protocol)
  const { localPort = 0, remotePort = 0 } = socket
  // Until the last bytes of the handshake are acknowledged, another timer runs.
  const probedInMs = await until('the connection is idle', () => keepAliveMs(localPort, remotePort))
  expect(probedInMs).toBeGreaterThan(55_000)
  expect(probedInMs).toBeLessThanOrEqual(60_000)
})

test('streams of the program hold 16 KiB before reading pauses', () => {
  const main = fileURLToPath(new URL('../../../src/main.ts', import.meta.url))
  const print = `import { getDefaultHighWaterMark } from 'node:stream'
    process.on('exit', () => process.stderr.write(String(getDefaultHighWaterMark(false))))`
  const args = ['--import', `data:text/javascript,${encodeURIComponent(print)}`, main, '--version']
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 60_000 })
  expect([status, stderr]).toEqual([0, String(READ_BYTES)])
  // Tests in this process run as the program does.
  expect(getDefaultHighWaterMark(false)).toBe(READ_BYTES)
})

test.each(PROTOCOLS)('%s a connection that is not made in time is given up', async protocol => {
  const script =
    'const s = net.createServer().listen({ port: 0, backlog: 1 }, () => console.log(s.address().port))'
  const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  try {
    const [port] = await once(child.stdout, 'data')
    // Stopped, it accepts no connection: the system completes one or two and does not answer the others.
    child.kill('SIGSTOP')
    const connect = socketConnector('localhost', 200, tls)
    const attempts = await Promise.allSettled(
      Array.from({ length: 8 }, () => connected(Number(port), { protocol, connect })),
    )
    const errors = attempts.filter(attempt => attempt.status === 'rejected').map(({ reason }) => reason.code)
    expect(errors.length).toBeGreaterThan(4)
    expect(new Set(errors)).toEqual(new Set(['UND_ERR_CONNECT_TIMEOUT']))
  } finally {
    child.kill('SIGKILL')
  }
})

test('an upstream with an absolute name is asked for it without the final dot in TLS', async () => {
  const connect = socketConnector('localhost.', 30_000, tls)
  const { upstream } = await pair('https:', { connect })
  expect(upstream instanceof TLSSocket && upstream.servername).toBe('localhost')
})
