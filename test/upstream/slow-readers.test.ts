import { connect, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { collectGarbage } from '../support/expose-gc.ts'
import { type ForwardingApp, startForwardingApp, WORKSPACE_PATH } from '../support/forwarding-app.ts'
import { get } from '../support/http-client.ts'
import { json, type ScriptedUpstream, startScriptedUpstream } from '../support/scripted-upstream.ts'
import { until } from '../support/until.ts'

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

let upstream: ScriptedUpstream
let gateway: ForwardingApp
const clients: Socket[] = []
const served: Socket[] = []

async function start(response: (string | Buffer)[]) {
  upstream = await startScriptedUpstream(request => request.send(...response))
  gateway = await startForwardingApp(
    upstream.url,
    { connections: READERS + WARM_UP, totalTimeoutMs: 120_000 },
    { clientStallMs: 120_000 },
    app => app.server.on('connection', socket => served.push(socket)),
  )
}

afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy()
  served.length = 0
  await gateway.stop()
  await upstream.stop()
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
      return unchanged === 40
    },
    60_000,
  )
}

function usedKib(): number {
  for (let round = 0; round < 4; round++) collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return (heapUsed + external) / 1024
}

test.each(Object.entries(FRAMINGS))(
  'a client that does not read a large response, framed by %s, occupies at most 128 KiB',
  { timeout: 90_000 },
  async (framing, response) => {
    await start(response)
    await stall(WARM_UP)
    const before = usedKib()
    await stall(READERS)
    const each = (usedKib() - before) / READERS
    process.stdout.write(
      `\nlarge response framed by ${framing}: ${each.toFixed(0)} KiB for each client that does not read\n`,
    )
    expect(each).toBeLessThan(MAX_KIB_PER_CLIENT)
  },
)

test('a client that pauses and resumes reading gets every byte', { timeout: 60_000 }, async () => {
  await start(FRAMINGS['a length'] ?? [])
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
  upstream.script = request => request.send(json('{}'))
  expect((await get(gateway.port, WORKSPACE_PATH)).text).toBe('{}')
})
