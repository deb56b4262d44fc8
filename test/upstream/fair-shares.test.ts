import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import type { UpstreamSettings } from '../../src/upstream/pool/connection.ts'
import { type ForwardingApp, metricValue, startForwardingApp } from '../support/forwarding-app.ts'
import { get } from '../support/http-client.ts'
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

let upstream: ScriptedUpstream
let gateway: ForwardingApp
const clients: Socket[] = []
/** The other ends of all connections of clients. */
const served: Socket[] = []

/** Only requests of `honest` workspaces are answered; the others when the test says so. */
async function start(settings: Partial<UpstreamSettings> = {}, shareAnswers = false) {
  upstream = await startScriptedUpstream(request => {
    if (request.target.includes('honest')) request.send(json('"honest"'))
  })
  gateway = await startForwardingApp(
    upstream.url,
    { connections: 4, queue: { maxRequests: 4, maxWaitMs: 60_000 }, headersTimeoutMs: 60_000, ...settings },
    { clientStallMs: 60_000, anyWorkspace: true, shareAnswers },
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
const ask = (workspace: string) => get(gateway.port, pathOf(workspace))
const queued = () => metricValue(gateway.metrics, 'postern_upstream_queued_requests', {})
const preempted = () => metricValue(gateway.metrics, 'postern_upstream_errors_total', { kind: 'preempted' })
const refused = { status: 503, text: JSON.stringify({ code: 'workspace_overloaded', error: 'Refused' }) }
const answered = { status: 200, text: '"honest"' }

/** A client of `greedy` that asks and reads nothing. */
function stalledClient(): Socket {
  const client = connect(gateway.port, '127.0.0.1').pause()
  client.on('error', () => {}).write(`GET ${pathOf('greedy')} HTTP/1.1\r\nHost: x\r\n\r\n`)
  clients.push(client)
  return client
}

/** Until nothing of the large answer has moved for so long that its client counts as stalled. */
async function untilStalled(): Promise<void> {
  let before = -1
  let unchanged = 0
  await until('its client takes nothing more', () => {
    const now = served[0]?.bytesWritten ?? 0
    unchanged = now === before && (served[0]?.writableLength ?? 0) > 0 ? unchanged + 1 : 0
    before = now
    return unchanged === 40
  })
}

const sendLarge = (request: ScriptedRequest) => request.send(...LARGE)

test('a workspace that waits for the upstream with all connections gives one up for another workspace', async () => {
  await start()
  const greedy = Array.from({ length: 4 }, () => ask('greedy'))
  await upstream.received(4)
  expect(await ask('honest')).toMatchObject(answered)
  expect(await preempted()).toBe(1)
  // The youngest of them.
  expect(await greedy[3]).toMatchObject(refused)
  for (const request of upstream.requests.slice(0, 3)) request.send(json('"greedy"'))
  const statuses = (await Promise.all(greedy)).map(({ status }) => status)
  expect(statuses).toEqual([200, 200, 200, 503])
})

test('a client that reads nothing is cut before one that waits for its answer, and sees that it is cut', async () => {
  await start()
  upstream.script = request =>
    request.target.includes('honest') ? request.send(json('"honest"')) : undefined
  const stalled = stalledClient()
  await upstream.received(1)
  const [first] = upstream.requests
  if (first === undefined) throw new Error('It has come')
  sendLarge(first)
  await untilStalled()
  const waiting = Array.from({ length: 3 }, () => ask('greedy'))
  await upstream.received(4)
  expect(await ask('honest')).toMatchObject(answered)
  expect(await preempted()).toBe(1)
  let received = 0
  stalled.on('data', chunk => {
    received += chunk.length
  })
  stalled.resume()
  await once(stalled, 'close')
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
  // Three others, each with one request that takes as long as it takes.
  const others = ['honest-1', 'honest-2', 'honest-3'].map(ask)
  await upstream.received(7)
  expect(await preempted()).toBe(3)
  for (const request of upstream.requests.slice(4)) request.send(json('"honest"'))
  expect(await Promise.all(others)).toMatchObject([answered, answered, answered])
})

test('a workspace at its share is not made to give anything up', async () => {
  await start()
  const each = ['one', 'two', 'three', 'four'].map(ask)
  await upstream.received(4)
  const fifth = ask('honest')
  await until('it waits', async () => (await queued()) === 1)
  upstream.requests[0]?.send(json('"one"'))
  expect(await fifth).toMatchObject(answered)
  expect(await preempted()).toBe(0)
  for (const request of upstream.requests.slice(1, 4)) request.send(json('{}'))
  expect((await Promise.all(each)).map(({ status }) => status)).toEqual([200, 200, 200, 200])
})

test('the workspace that fills the queue makes room in it for others', async () => {
  await start()
  const greedy = Array.from({ length: 8 }, () => ask('greedy'))
  await until('the queue is full', async () => (await queued()) === 4)
  const honest = [ask('honest'), ask('honest')]
  expect(await Promise.all(honest)).toMatchObject([answered, answered])
  upstream.script = request => request.send(json('{}'))
  for (const request of upstream.requests) request.send(json('{}'))
  const answers = await Promise.all(greedy)
  expect(answers.filter(({ status }) => status === 503)).not.toEqual([])
  expect(answers.filter(({ status }) => status === 503).every(({ text }) => text === refused.text)).toBe(true)
  expect(await queued()).toBe(0)
})

test('once one was taken, the next requests of others do not wait for the grace again', async () => {
  await start()
  for (let count = 0; count < 8; count++) ask('greedy').catch(() => {})
  await until('the queue is full', async () => (await queued()) === 4)
  for (let count = 0; count < 30; count++) expect(await ask('honest')).toMatchObject(answered)
  // The first took one; the others found it in reserve.
  expect(await preempted()).toBeLessThan(4)
})

test('of callers that share one answer all hear that its connection was taken', async () => {
  await start({}, true)
  const sharing = Array.from({ length: 3 }, () => ask('greedy'))
  await upstream.received(1)
  const alone = Array.from({ length: 3 }, (_, index) => ask(`greedy/files?limit=${index + 1}`))
  await upstream.received(4)
  const taken: number[] = []
  for (const each of [...sharing, ...alone]) each.then(({ status }) => taken.push(status)).catch(() => {})
  const honest = Array.from({ length: 3 }, (_, index) => ask(`honest-${index}`))
  expect(await Promise.all(honest)).toMatchObject([answered, answered, answered])
  await until('those whose connection was taken have heard', () => taken.length >= 3)
  expect(taken.every(status => status === 503)).toBe(true)
})
