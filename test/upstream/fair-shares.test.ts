import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import type { UpstreamSettings } from '../../src/upstream/pool/connection.ts'
import { type ForwardingApp, metricSum, startForwardingApp } from '../support/forwarding-app.ts'
import { type Answer, get } from '../support/http-client.ts'
import {
  json,
  type ScriptedRequest,
  type ScriptedUpstream,
  startScriptedUpstream,
} from '../support/scripted-upstream.ts'
import { until } from '../support/until.ts'

const BODY = Buffer.alloc(16 * 1024 * 1024, 'a')
const LARGE = [
  `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${BODY.length}\r\n\r\n`,
  BODY,
]

/** Otherwise a request that the upstream does not answer is denied after 10 s, for another reason. */
const PATIENT = { headersTimeoutMs: 60_000, bodyIdleTimeoutMs: 60_000, totalTimeoutMs: 60_000 }

let upstream: ScriptedUpstream
let gateway: ForwardingApp
const clients: Socket[] = []
/** Server side of the clients' connections. */
const served: Socket[] = []

/** The upstream responds to `honest` workspaces at once, and to others when the test sends a response. */
async function start(settings: Partial<UpstreamSettings> = {}, coalesce = false) {
  upstream = await startScriptedUpstream(request => {
    if (request.target.includes('honest')) request.send(json('"honest"'))
  })
  gateway = await startForwardingApp(
    upstream.url,
    { ...PATIENT, connections: 4, queue: { maxRequests: 4, maxWaitMs: 60_000 }, ...settings },
    { clientStallMs: 60_000, anyWorkspace: true, coalesce },
    app => app.server.on('connection', socket => served.push(socket)),
  )
}

afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy()
  served.length = 0
  await gateway.stop()
  await upstream.stop()
})

const pathOf = (workspace: string) => `/api/v1/workspaces/${workspace}`
const send = (workspace: string) => get(gateway.port, pathOf(workspace))
const queued = () => metricSum(gateway.metrics, 'postern_upstream_queued_requests', {})
const preempted = () => metricSum(gateway.metrics, 'postern_upstream_errors_total', { kind: 'preempted' })
const denied = { status: 503, text: JSON.stringify({ code: 'workspace_overloaded', error: 'Refused' }) }
const ok = { status: 200, text: '"honest"' }

/** Sends each request when the upstream has received the one before it: the last one starts last. */
async function sendInTurn(workspaces: readonly string[]): Promise<Promise<Answer>[]> {
  const sent: Promise<Answer>[] = []
  for (const workspace of workspaces) {
    const before = upstream.requests.length
    sent.push(send(workspace))
    await upstream.received(before + 1)
  }
  return sent
}

/** A client of `greedy` that sends a request and does not read. */
function stalledClient(): Socket {
  const client = connect(gateway.port, '127.0.0.1').pause()
  client.on('error', () => {}).write(`GET ${pathOf('greedy')} HTTP/1.1\r\nHost: x\r\n\r\n`)
  clients.push(client)
  return client
}

/** Waits until the large response has been stalled for longer than the grace. */
async function untilStalled(): Promise<void> {
  let before = -1
  let unchanged = 0
  await until('the client has stalled', () => {
    const now = served[0]?.bytesWritten ?? 0
    unchanged = now === before && (served[0]?.writableLength ?? 0) > 0 ? unchanged + 1 : 0
    before = now
    return unchanged === 15
  })
}

const sendLarge = (request: ScriptedRequest) => request.send(...LARGE)

test('a workspace that uses all connections gives one up for another workspace', async () => {
  await start()
  const greedy = await sendInTurn(['greedy', 'greedy', 'greedy', 'greedy'])
  expect(await send('honest')).toMatchObject(ok)
  expect(await preempted()).toBe(1)
  // The exchange that started last.
  expect(await greedy[3]).toMatchObject(denied)
  for (const request of upstream.requests.slice(0, 3)) request.send(json('"greedy"'))
  const statuses = (await Promise.all(greedy)).map(({ status }) => status)
  expect(statuses).toEqual([200, 200, 200, 503])
})

test('a client that does not read is preempted before one that waits for its response, and its connection closes', async () => {
  await start()
  upstream.script = request =>
    request.target.includes('honest') ? request.send(json('"honest"')) : undefined
  const stalled = stalledClient()
  await upstream.received(1)
  const [first] = upstream.requests
  if (first === undefined) throw new Error('It has come')
  sendLarge(first)
  await untilStalled()
  const waiting = Array.from({ length: 3 }, () => send('greedy'))
  await upstream.received(4)
  expect(await send('honest')).toMatchObject(ok)
  expect(await preempted()).toBe(1)
  let received = 0
  stalled.on('data', chunk => {
    received += chunk.length
  })
  stalled.resume()
  await once(stalled, 'close')
  const shed = () =>
    metricSum(gateway.metrics, 'postern_http_requests_total', { code: '503', source: 'gateway' })
  await expect.poll(shed).toBe(1)
  expect(received).toBeGreaterThan(0)
  expect(received).toBeLessThan(BODY.length)
  for (const request of upstream.requests.slice(1, 4)) request.send(json('"greedy"'))
  expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual([200, 200, 200])
})

test('clients that read nothing keep no more than their share while others want the rest', async () => {
  await start()
  upstream.script = request => (request.target.includes('honest') ? undefined : sendLarge(request))
  for (let count = 0; count < 4; count++) stalledClient()
  await upstream.received(4)
  // Three other workspaces, each with one slow request.
  const others = ['honest-1', 'honest-2', 'honest-3'].map(send)
  await upstream.received(7)
  expect(await preempted()).toBe(3)
  for (const request of upstream.requests.slice(4)) request.send(json('"honest"'))
  expect(await Promise.all(others)).toMatchObject([ok, ok, ok])
})

test('a workspace at its share gives up no connection', async () => {
  await start()
  const each = ['one', 'two', 'three', 'four'].map(send)
  await upstream.received(4)
  const fifth = send('honest')
  await until('it is queued', async () => (await queued()) === 1)
  upstream.requests[0]?.send(json('"one"'))
  expect(await fifth).toMatchObject(ok)
  expect(await preempted()).toBe(0)
  for (const request of upstream.requests.slice(1, 4)) request.send(json('{}'))
  expect((await Promise.all(each)).map(({ status }) => status)).toEqual([200, 200, 200, 200])
})

test('the workspace that fills the queue gives up places for others', async () => {
  await start()
  const greedy = Array.from({ length: 8 }, () => send('greedy'))
  await until('the queue is full', async () => (await queued()) === 4)
  const honest = [send('honest'), send('honest')]
  expect(await Promise.all(honest)).toMatchObject([ok, ok])
  upstream.script = request => request.send(json('{}'))
  for (const request of upstream.requests) request.send(json('{}'))
  const responses = await Promise.all(greedy)
  expect(responses.filter(({ status }) => status === 503)).not.toEqual([])
  expect(responses.filter(({ status }) => status === 503).every(({ text }) => text === denied.text)).toBe(
    true,
  )
  expect(await queued()).toBe(0)
})

test('after a preemption the next requests of other workspaces do not wait for the grace', async () => {
  await start()
  for (let count = 0; count < 8; count++) send('greedy').catch(() => {})
  await until('the queue is full', async () => (await queued()) === 4)
  for (let count = 0; count < 30; count++) expect(await send('honest')).toMatchObject(ok)
  // The first one preempted an exchange; the others used the reserve.
  expect(await preempted()).toBeLessThan(4)
})

test('if a coalesced request is preempted, all its waiters get the denial, and no other request does', async () => {
  await start({}, true)
  const alone = await sendInTurn([1, 2, 3].map(limit => `greedy/files?limit=${limit}`))
  // The exchange that starts last is the one that is preempted.
  const coalesced = Array.from({ length: 3 }, () => send('greedy'))
  await until('all three wait for one exchange', () => gateway.requests.length === 6)
  await upstream.received(4)
  expect(await send('honest')).toMatchObject(ok)
  expect(await Promise.all(coalesced)).toMatchObject([denied, denied, denied])
  expect(await preempted()).toBe(1)
  for (const request of upstream.requests.slice(0, 3)) request.send(json('"greedy"'))
  expect((await Promise.all(alone)).map(({ status }) => status)).toEqual([200, 200, 200])
})
