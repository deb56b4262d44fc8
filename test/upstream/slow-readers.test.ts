import { connect, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { collectGarbage } from '../support/expose-gc.ts'
import { type ForwardingApp, startForwardingApp, WORKSPACE_PATH } from '../support/forwarding-app.ts'
import { get } from '../support/http-client.ts'
import { json, type ScriptedUpstream, startScriptedUpstream } from '../support/scripted-upstream.ts'
import { until } from '../support/until.ts'

const MOST_HELD_KIB = 128
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

async function start(answer: (string | Buffer)[]) {
  upstream = await startScriptedUpstream(request => request.send(...answer))
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

/** Clients that ask and read nothing; it resolves when nothing moves any more. */
async function stall(count: number): Promise<void> {
  for (let started = 0; started < count; started++) {
    const client = connect(gateway.port, '127.0.0.1').pause()
    client.on('error', () => {}).write(`GET ${WORKSPACE_PATH} HTTP/1.1\r\nHost: x\r\n\r\n`)
    clients.push(client)
  }
  let before = -1
  let unchanged = 0
  await until(
    'nothing moves any more',
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

function heldKib(): number {
  for (let round = 0; round < 4; round++) collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return (heapUsed + external) / 1024
}

test.each(Object.entries(FRAMINGS))(
  'a client that reads nothing of a large answer, framed by %s, holds at most 128 KiB',
  { timeout: 90_000 },
  async (framing, answer) => {
    await start(answer)
    await stall(WARM_UP)
    const before = heldKib()
    await stall(READERS)
    const each = (heldKib() - before) / READERS
    process.stdout.write(
      `\nlarge answer framed by ${framing}: ${each.toFixed(0)} KiB for each client that reads nothing\n`,
    )
    expect(each).toBeLessThan(MOST_HELD_KIB)
  },
)

test('a client that stops reading and goes on gets every byte', { timeout: 60_000 }, async () => {
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
