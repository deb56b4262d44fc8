import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { makeCertificates } from '../support/certificates.ts'
import { collectGarbage } from '../support/expose-gc.ts'
import { type ForwardingApp, startForwardingApp, WORKSPACE_PATH } from '../support/forwarding-app.ts'
import { get } from '../support/http-client.ts'
import { json, type ScriptedUpstream, startScriptedUpstream } from '../support/scripted-upstream.ts'
import { settled, until } from '../support/until.ts'

const MAX_KIB_PER_CLIENT = 128
const READERS = 40
const WARM_UP = 10
const BODY = Buffer.alloc(8 * 1024 * 1024, 'a')
const HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n'
const FRAMINGS: Readonly<Record<string, (string | Buffer)[]>> = {
  'a length': [`${HEAD}Content-Length: ${BODY.length}\r\n\r\n`, BODY],
  chunks: [`${HEAD}Transfer-Encoding: chunked\r\n\r\n${BODY.length.toString(16)}\r\n`, BODY, '\r\n0\r\n\r\n'],
  'a head in two pieces': [`${HEAD}ETag: "`, `1"\r\nContent-Length: ${BODY.length}\r\n\r\n`, BODY],
}

/** In a process of its own: what it encrypts ahead would count here. */
const TLS_UPSTREAM = `
  const [cert, key, head, length] = process.argv.slice(1)
  const server = tls.createServer({ cert, key }, socket => {
    socket.on('error', () => {}).once('data', () => socket.write(head) && socket.write(Buffer.alloc(+length, 'a')))
  })
  server.listen(0, '127.0.0.1', () => console.log(server.address().port))`

let upstream: ScriptedUpstream | ChildProcess
let gateway: ForwardingApp
const clients: Socket[] = []
const served: Socket[] = []

async function start(answer: (string | Buffer)[]) {
  upstream = await startScriptedUpstream(request => request.send(...answer))
  gateway = await startGateway(upstream.url)
  return upstream
}

const startGateway = (url: string, tls: { caFile?: string } = {}) =>
  startForwardingApp(
    url,
    { connections: READERS + WARM_UP, connectTimeoutMs: 60_000, totalTimeoutMs: 120_000, tls },
    { clientStallMs: 120_000 },
    app => app.server.on('connection', socket => served.push(socket)),
  )

afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy()
  served.length = 0
  await gateway.stop()
  if ('kill' in upstream) upstream.kill('SIGKILL')
  else await upstream.stop()
})

/** Starts clients that do not read, and waits until no connection makes progress. */
async function stall(count: number): Promise<void> {
  for (let started = 0; started < count; started++) {
    const client = connect(gateway.port, '127.0.0.1').pause()
    client.on('error', () => {}).write(`GET ${WORKSPACE_PATH} HTTP/1.1\r\nHost: x\r\n\r\n`)
    clients.push(client)
  }
  let before = -1
  let unchanged = 0
  await until(
    'all connections have stalled',
    () => {
      const now = served.reduce((sum, socket) => sum + socket.bytesWritten, 0)
      const allWait = served.length === clients.length && served.every(socket => socket.writableLength > 0)
      unchanged = allWait && now === before ? unchanged + 1 : 0
      before = now
      return unchanged === 15
    },
    60_000,
  )
}

/** The least of several readings: what a closed socket held is freed in later turns of the event loop. */
async function usedKib(): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < 8; round++) {
    collectGarbage()
    const { heapUsed, external } = process.memoryUsage()
    least = Math.min(least, heapUsed + external)
    await settled()
  }
  return least / 1024
}

async function expectFewHeld(what: string): Promise<void> {
  await stall(WARM_UP)
  const before = await usedKib()
  await stall(READERS)
  const each = ((await usedKib()) - before) / READERS
  process.stdout.write(`\nlarge answer ${what}: ${each.toFixed(0)} KiB for each client that reads nothing\n`)
  expect(each).toBeLessThan(MAX_KIB_PER_CLIENT)
}

test.each(Object.entries(FRAMINGS))(
  'a client that does not read a large response, framed by %s, occupies at most 128 KiB',
  async (framing, answer) => {
    await start(answer)
    await expectFewHeld(`framed by ${framing}`)
  },
)

test('a client that does not read a large response sent over TLS holds at most 128 KiB', async () => {
  const certificates = await makeCertificates()
  const { cert, key } = certificates.server
  const script = [
    '-e',
    TLS_UPSTREAM,
    '--',
    String(cert),
    String(key),
    `${FRAMINGS['a length']?.[0]}`,
    `${BODY.length}`,
  ]
  const child = spawn(process.execPath, script, { stdio: ['ignore', 'pipe', 'inherit'] })
  upstream = child
  const [port] = await once(child.stdout, 'data')
  gateway = await startGateway(`https://127.0.0.1:${Number(port)}`, { caFile: certificates.caFile })
  certificates.remove()
  await expectFewHeld('over TLS')
})

test('a client that pauses and resumes reading gets every byte', async () => {
  const scripted = await start(FRAMINGS['a length'] ?? [])
  await stall(3)
  const lengths = await Promise.all(
    clients.map(client => {
      let length = 0
      const { promise, resolve } = Promise.withResolvers<number>()
      client.on('data', chunk => {
        length += chunk.length
        if (length > BODY.length) resolve(length)
      })
      client.resume()
      return promise
    }),
  )
  expect(lengths.every(length => length > BODY.length)).toBe(true)
  scripted.script = request => request.send(json('{}'))
  expect((await get(gateway.port, WORKSPACE_PATH)).text).toBe('{}')
})
