import { once } from 'node:events'
import { Agent } from 'node:http'
import { connect } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, expect, test } from 'vitest'
import { type ForwardingApp, startForwardingApp, WORKSPACE_PATH } from '../support/forwarding-app.ts'
import { get } from '../support/http-client.ts'
import {
  json,
  type ScriptedRequest,
  type ScriptedUpstream,
  startScriptedUpstream,
} from '../support/scripted-upstream.ts'

const CLIENTS = 8
const REQUESTS_EACH = 60
const SIZES = [0, 1, 300, 5_000, 40_000, 200_000]

let upstream: ScriptedUpstream
let gateway: ForwardingApp
const agent = new Agent({ keepAlive: true })

afterEach(async () => {
  agent.destroy()
  await gateway.stop()
  await upstream.stop()
})

/** A body that differs from those of all other responses. */
function bodyOf(number: number): string {
  const size = SIZES[number % SIZES.length] ?? 0
  return `${number};`.repeat(Math.ceil(size / 3)).slice(0, size)
}

/** Sends a response in segments, split at random positions in head and body. */
async function sendInPieces({ number, socket }: ScriptedRequest): Promise<void> {
  const body = bodyOf(number)
  const framing = number % 2 === 0 ? `Content-Length: ${body.length}` : 'Transfer-Encoding: chunked'
  const coded = number % 2 === 0 ? body : `${body.length === 0 ? '' : chunkOf(body)}0\r\nX-Late: yes\r\n\r\n`
  const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nETag: "${number}"\r\n${framing}\r\n\r\n`
  let rest = head + coded
  const pieces = Math.floor(Math.random() * 4)
  for (let piece = 0; piece < pieces; piece++) {
    const length = Math.floor(Math.random() * Math.min(rest.length, 2 * head.length))
    socket.write(rest.slice(0, length))
    rest = rest.slice(length)
    for (let turn = Math.random() * 8; turn > 0; turn--) await nextTurn()
  }
  socket.write(rest)
}

const chunkOf = (body: string) => `${body.length.toString(16)}\r\n${body}\r\n`

test('responses in segments of any size reach their own clients unchanged, over reused connections', async () => {
  upstream = await startScriptedUpstream(request => {
    void sendInPieces(request)
  })
  gateway = await startForwardingApp(upstream.url, { connections: CLIENTS / 2 })
  const wrong: unknown[] = []
  const client = async () => {
    for (let count = 0; count < REQUESTS_EACH; count++) {
      const { status, headers, text } = await get(gateway.port, WORKSPACE_PATH, {}, agent)
      const number = Number(headers.etag?.replaceAll('"', ''))
      if (status !== 200 || text !== bodyOf(number)) wrong.push({ number, status, length: text.length })
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, client))
  expect(wrong).toEqual([])
  expect(upstream.requests).toHaveLength(CLIENTS * REQUESTS_EACH)
  expect(upstream.sockets.length).toBeLessThanOrEqual(CLIENTS)
})

test('a response that waits for an earlier one is not overwritten by the next on its connection', async () => {
  upstream = await startScriptedUpstream(() => {})
  gateway = await startForwardingApp(upstream.url, { connections: 2 })
  const client = connect(gateway.port, '127.0.0.1')
  const request = `GET ${WORKSPACE_PATH} HTTP/1.1\r\nHost: gateway\r\n`
  client.write(`${request}\r\n${request}Connection: close\r\n\r\n`)
  await upstream.received(2)
  const [first, second] = upstream.requests
  // The chunks of a chunked body are passed on as they were read.
  const head = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n'
  second?.send(`${head}${chunkOf('a'.repeat(5000))}0\r\n\r\n`)

  upstream.script = other => other.send(json('b'.repeat(5000)))
  expect((await get(gateway.port, WORKSPACE_PATH)).text).toBe('b'.repeat(5000))
  expect(upstream.requests[2]?.connection).toBe(second?.connection)
  first?.send(json('"first"'))
  const received: Buffer[] = []
  client.on('data', bytes => received.push(bytes))
  await once(client, 'end')
  expect(Buffer.concat(received).toString()).toContain('a'.repeat(5000))
})
