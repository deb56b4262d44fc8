import type { Socket } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type Listening, startPostern } from '../support/postern-process.ts'
import { exchange, field, get, RawClient } from '../support/raw-client.ts'
import { jsonAnswer } from '../support/recording-upstream.ts'
import { scrape, sumOf } from '../support/scrape.ts'
import { until } from '../support/until.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const WORKSPACE = '/api/v1/workspaces/ws_1'
const FILES = `${WORKSPACE}/files?limit=9`
/** Fewer than the connections to the upstream, so that each request has its own. */
const LEAVING = 100
const RESETS = 1_000
/** `upstream.connections`, as many as its default. */
const UPSTREAM_CONNECTIONS = 128

let world: World
let key: IssuedKey
let narrow: IssuedKey
let gateway: Listening

beforeAll(async () => {
  world = await startWorld()
  key = await world.issue()
  narrow = await world.issue({ scopes: ['workspace:read'] })
})
afterAll(() => world.stop())
beforeEach(async () => {
  world.upstream.reset()
  gateway = await startPostern('gateway', { ...world.env, POSTERN_GATEWAY_HEADERS_TIMEOUT_MS: '1000' })
})
afterEach(async () => {
  await gateway.process.stop()
})

async function count(name: string, ...labels: string[]): Promise<number> {
  return sumOf(await scrape(gateway.urls.ops), name, ...labels)
}

function send(request: string): RawClient {
  const client = new RawClient(gateway.urls.gateway)
  client.send(request)
  return client
}

async function expectServed(): Promise<void> {
  const answer = await exchange(gateway.urls.gateway, get(WORKSPACE, key.secret))
  expect([answer.status, answer.body]).toEqual([200, '{"id":"ws_1"}'])
}

async function expectNoErrors(): Promise<void> {
  expect(await count('postern_http_requests_total', 'code="5')).toBe(0)
  // Warnings may come from Redis on a loaded machine; a defect in the gateway is logged as an error.
  expect(gateway.process.log.filter(line => Number(line['level']) >= 50)).toEqual([])
}

/** Disconnects all clients, and waits until the upstream requests are cancelled. */
async function leave(
  clients: readonly RawClient[],
  phase: string,
  disconnect: (socket: Socket) => void,
): Promise<void> {
  const endedBefore = world.upstream.ended
  const leftAtMs = performance.now()
  for (const { socket } of clients) disconnect(socket)
  await until(
    'the upstream connections are closed',
    () => world.upstream.ended >= endedBefore + clients.length,
  )
  const freedMs = Math.round(performance.now() - leftAtMs)
  world.upstream.hold = () => undefined
  world.upstream.answer = () => jsonAnswer(200, '{"id":"ws_1"}')
  await until(
    'all requests are counted',
    async () => (await count('postern_http_client_aborts_total', `phase="${phase}"`)) === clients.length,
  )
  await expectServed()
  process.stdout.write(
    `${clients.length} clients that disconnect (${phase}): upstream requests cancelled after ${freedMs} ms, ` +
      `upstream requests ${world.upstream.requests.length}, responses counted as failed 0\n`,
  )
  expect(world.upstream.requests.length).toBe(clients.length + 1)
}

const WAYS = [
  ['a reset', (socket: Socket) => void socket.resetAndDestroy()],
  ['a close', (socket: Socket) => void socket.destroy()],
] as const

test.each(WAYS)(
  'clients that disconnect by %s before the upstream responds cancel their requests, and count as no failure',
  async (_way, disconnect) => {
    world.upstream.hold = () => new Promise(() => {})
    const clients = Array.from({ length: LEAVING }, () => send(get(WORKSPACE, key.secret)))
    await until('every request has reached the upstream', () => world.upstream.requests.length === LEAVING)
    await leave(clients, 'waiting', disconnect)
    await expectNoErrors()
  },
)

test.each(WAYS)(
  'clients that disconnect by %s during a response cancel it, and count as no failure',
  async (_way, disconnect) => {
    world.upstream.answer = () =>
      `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"${'x'.repeat(1000)}`
    const clients = Array.from({ length: LEAVING }, () => send(get(WORKSPACE, key.secret)))
    await until('every response has begun', () => clients.every(client => client.received.length > 10))
    await leave(clients, 'streaming', disconnect)
    await expectNoErrors()
  },
)

test('clients that close their connections free each connection of a slow upstream for the next client', async () => {
  const slow: string[] = []
  world.upstream.hold = request => {
    if (slow.length === UPSTREAM_CONNECTIONS) return undefined
    slow.push(request)
    return new Promise(() => {})
  }
  const clients = Array.from({ length: UPSTREAM_CONNECTIONS }, () => send(get(WORKSPACE, key.secret)))
  await until('each connection to the upstream is in use', () => slow.length === UPSTREAM_CONNECTIONS)
  for (const { socket } of clients) socket.destroy()
  const leftAtMs = performance.now()
  await expectServed()
  const servedMs = Math.round(performance.now() - leftAtMs)
  process.stdout.write(`${UPSTREAM_CONNECTIONS} clients leave: the next is answered after ${servedMs} ms\n`)
  await until(
    'all requests are counted',
    async () => (await count('postern_http_client_aborts_total', 'phase="waiting"')) === clients.length,
  )
})

test('connections that are reset in the middle of a head leave nothing behind', async () => {
  const request = get(WORKSPACE, key.secret)
  for (let sent = 0; sent < RESETS; sent += 50) {
    const clients = Array.from({ length: 50 }, (_, index) =>
      send(request.slice(0, 1 + ((sent + index) % (request.length - 2)))),
    )
    await Promise.all(
      clients.map(
        ({ socket }) =>
          new Promise<void>(resolve => {
            socket.once('close', resolve)
            // Reset instead of closed, once connected and the bytes are sent.
            if (socket.connecting) socket.once('connect', () => setImmediate(() => socket.resetAndDestroy()))
            else socket.resetAndDestroy()
          }),
      ),
    )
  }
  await expectServed()
  expect(world.upstream.requests).toHaveLength(1)
  // The log is in order: no such line was written before this one.
  await gateway.process.logged(line => line['msg'] === 'request')
  expect(gateway.process.log.filter(line => line['msg'] === 'request')).toHaveLength(1)
  await expectNoErrors()
})

test('a head that arrives byte by byte is accepted within the timeout and rejected after it', async () => {
  const prompt = new RawClient(gateway.urls.gateway)
  for (const byte of get(WORKSPACE, key.secret)) {
    prompt.send(byte)
    await new Promise(setImmediate)
  }
  expect((await prompt.answers(1))[0]?.status).toBe(200)

  const slow = new RawClient(gateway.urls.gateway)
  const bytes = get(WORKSPACE, key.secret)
  let sent = 0
  const drip = setInterval(() => !slow.closed && slow.send(bytes[sent++ % 40] ?? ''), 100)
  const answers = await slow.untilClosed()
  clearInterval(drip)
  expect(answers.map(answer => [answer.status, field(answer, 'connection')])).toEqual([[408, 'close']])
  expect(world.upstream.requests).toHaveLength(1)
  await expectServed()
})

test('a connection stays open after a rejection with complete framing, and closes after one without', async () => {
  const client = new RawClient(gateway.urls.gateway)
  const refused: [string, number][] = [
    [get(WORKSPACE), 401],
    [get(WORKSPACE, 'wsk_forged'), 401],
    [get(FILES, narrow.secret), 403],
    [get('/api/v1/workspaces/ws_2', key.secret), 404],
    [get('/nowhere', key.secret), 404],
    [get(WORKSPACE, key.secret).replace('GET', 'DELETE'), 405],
    [get(`${WORKSPACE}/files?limit=0`, key.secret), 400],
  ]
  const statuses: number[] = []
  for (const [index, [request]] of refused.entries()) {
    client.send(request + get(WORKSPACE, key.secret))
    statuses.push(...(await client.answers(2 * index + 2)).slice(2 * index).map(answer => answer.status))
  }
  expect(statuses).toEqual(refused.flatMap(([, status]) => [status, 200]))
  expect(world.upstream.requests).toHaveLength(refused.length)

  client.send(get(WORKSPACE, key.secret, 'Transfer-Encoding: chunked') + get(WORKSPACE, key.secret))
  const answers = await client.untilClosed()
  expect(
    answers.slice(2 * refused.length).map(answer => [answer.status, field(answer, 'connection')]),
  ).toEqual([[400, 'close']])
  expect(world.upstream.requests).toHaveLength(refused.length)
})
