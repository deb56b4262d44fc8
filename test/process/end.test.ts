import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { HELD_MS, HOLDING_TIMES, letPass } from '../support/held-times.ts'
import { KeepAliveLoad } from '../support/keep-alive-load.ts'
import { PROGRAM, startPostern } from '../support/postern-process.ts'
import { exchange, get, RawClient } from '../support/raw-client.ts'
import { until } from '../support/until.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const WORKSPACE = '/api/v1/workspaces/ws_1'
const FAULTY = fileURLToPath(new URL('../support/faulty-program.mjs', import.meta.url))

let world: World
let key: IssuedKey

beforeAll(async () => {
  world = await startWorld()
  key = await world.issue()
})
afterAll(() => world.stop())
beforeEach(() => world.upstream.reset())

/** An upstream whose responses begin at once and end when the test says so. */
async function startStreams() {
  const open = new Map<string, ServerResponse>()
  const server = createServer((request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.write('{"begin":1,')
    open.set(request.url ?? '', response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { open, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

test('on SIGTERM a long response that ends in time is complete, one that does not is aborted at the deadline, and it exits 0', async () => {
  const { open, url } = await startStreams()
  const env = {
    ...world.env,
    POSTERN_UPSTREAM_URL: url,
    POSTERN_DRAIN_TIMEOUT_MS: HELD_MS,
    // Nothing else ends it.
    POSTERN_UPSTREAM_BODY_IDLE_TIMEOUT_MS: '300000',
    POSTERN_UPSTREAM_TOTAL_TIMEOUT_MS: '300000',
  }
  const gateway = await startPostern('gateway', env, [], [process.execPath, ...HOLDING_TIMES])
  const [ends, hangs] = [1, 2].map(limit => {
    const client = new RawClient(gateway.urls.gateway)
    client.send(get(`${WORKSPACE}/files?limit=${limit}`, key.secret))
    return client
  })
  if (ends === undefined || hangs === undefined) throw new Error('There must be two clients')
  await until('both responses have begun', () =>
    [ends, hangs].every(client => client.received.includes('{"begin":1,')),
  )
  gateway.process.child.kill('SIGTERM')
  await gateway.process.logged(line => line['msg'] === 'draining')
  open.get(`${WORKSPACE}/files?limit=1`)?.end('"end":1}')
  const [whole] = await ends.untilClosed()
  expect([whole?.status, whole?.body]).toEqual([200, '{"begin":1,"end":1}'])
  expect(hangs.closed).toBe(false)
  letPass(gateway.process)
  expect(await hangs.untilClosed()).toEqual([])
  expect(hangs.received.toString()).not.toContain('\r\n0\r\n\r\n')
  const exit = await gateway.process.exited
  expect([exit.code, exit.stderr]).toEqual([0, ''])
  expect(gateway.process.log.map(line => line['msg'])).toContain('drain timed out, closing connections')
  // Prometheus may not scrape a gateway again before its exit, so the console counts.
  const metrics = await (await fetch(`${world.console.urls.ops}/metrics`)).text()
  expect(metrics).toContain('\npostern_gateway_drains_total{outcome="timed_out"} 1\n')
})

test('a client that has connected and sends no request does not keep a drain open', async () => {
  const env = { ...world.env, POSTERN_GATEWAY_HEADERS_TIMEOUT_MS: '2000' }
  const gateway = await startPostern('gateway', env)
  const silent = new RawClient(gateway.urls.gateway)
  await once(silent.socket, 'connect')
  const exit = await gateway.process.stop('SIGTERM')
  expect([exit.code, exit.stderr]).toEqual([0, ''])
  expect(gateway.process.log.map(line => line['msg'])).not.toContain('drain timed out, closing connections')
})

test('requests pipelined after the last response of a connection are not started, so that they can be retried elsewhere', async () => {
  const env = { ...world.env, POSTERN_DRAIN_DELAY_MS: HELD_MS }
  const gateway = await startPostern('gateway', env, [], [process.execPath, ...HOLDING_TIMES])
  const client = new RawClient(gateway.urls.gateway)
  client.send(get(WORKSPACE, key.secret))
  await client.answers(1)
  gateway.process.child.kill('SIGTERM')
  await gateway.process.logged(line => line['msg'] === 'draining')
  client.send(get(WORKSPACE, key.secret).repeat(5))
  const answers = await client.untilClosed()
  expect(answers.map(answer => answer.status)).toEqual([200, 200])
  letPass(gateway.process)
  await gateway.process.exited
  expect(world.upstream.requests).toHaveLength(2)
})

test.each([
  ['exception', 'thrown on purpose'],
  ['rejection', 'rejected on purpose'],
])(
  'an uncaught %s shuts it down through the drain: pending requests complete, and one log line gives the reason',
  async (kind, message) => {
    const faulty = [process.execPath, '--import', FAULTY, ...HOLDING_TIMES]
    const env = { ...world.env, POSTERN_DRAIN_DELAY_MS: HELD_MS, TEST_FAULT: kind }
    const gateway = await startPostern('gateway', env, [], faulty)
    const release = Promise.withResolvers<void>()
    world.upstream.hold = request => (request.includes('limit=9') ? release.promise : undefined)
    const waiting = new RawClient(gateway.urls.gateway)
    waiting.send(get(`${WORKSPACE}/files?limit=9`, key.secret))
    await until('the request is at the upstream', () => world.upstream.requests.length === 1)

    gateway.process.child.kill('SIGUSR2')
    await gateway.process.logged(line => line['msg'] === 'draining')
    expect((await fetch(`${gateway.urls.ops}/readyz`)).status).toBe(503)
    expect((await exchange(gateway.urls.gateway, get(WORKSPACE, key.secret))).status).toBe(200)
    // A second fault during shutdown changes nothing.
    gateway.process.child.kill('SIGUSR2')
    release.resolve()
    expect((await waiting.answers(1)).map(answer => answer.status)).toEqual([200])
    const fatal = () => gateway.process.log.filter(line => line['level'] === 60)
    await until('both faults are logged', () => fatal().length === 2)

    letPass(gateway.process)
    const exit = await gateway.process.exited
    expect([exit.code, exit.stderr]).toEqual([1, ''])
    expect(fatal().map(line => (line['err'] as { message: string }).message)).toEqual([message, message])
    expect(gateway.process.log.find(line => line['msg'] === 'drained')).toMatchObject({
      reason: 'uncaught exception',
    })
  },
)

test('a console with an uncaught exception shuts down in order, too', async () => {
  const env = {
    ...Object.fromEntries(
      Object.entries(world.env).filter(([name]) => !/UPSTREAM|KEY_SERVICE_URL/.test(name)),
    ),
    POSTERN_ADMIN_TOKEN: 'admin-token-of-a-fault',
    POSTERN_DATABASE_URL: 'sqlite::memory:',
  }
  const console = await startPostern('console', env, [], [process.execPath, '--import', FAULTY, ...PROGRAM])
  console.process.child.kill('SIGUSR2')
  expect((await console.process.exited).code).toBe(1)
  expect(console.process.log.find(line => line['msg'] === 'drained')).toMatchObject({
    reason: 'uncaught exception',
  })
})

test('SIGKILL loses the requests in flight and nothing else, and the next process is ready at once', async () => {
  const CLIENTS = 8
  const env = { ...world.env, POSTERN_GATEWAY_PORT: String(await freePort()) }
  const before = await stored()
  let gateway = await startPostern('gateway', env)
  let up = true
  const load = new KeepAliveLoad({
    clients: CLIENTS,
    target: () => gateway.urls.gateway,
    next: () => ({ bytes: get(WORKSPACE, key.secret), expected: '{"id":"ws_1"}' }),
    mayConnect: () => up,
  })
  await load.reached(500)
  up = false
  const killedAtMs = performance.now()
  await gateway.process.stop('SIGKILL')
  await until('all clients have noticed', () => load.connected === 0)
  const lost = load.failed.length
  gateway = await startPostern('gateway', env)
  const readyAfterMs = Math.round(performance.now() - killedAtMs)
  expect((await fetch(`${gateway.urls.ops}/readyz`)).status).toBe(200)
  up = true
  await load.reached(load.answered + lost + 500)
  await load.stop()
  process.stdout.write(
    `SIGKILL: ${load.sent} requests, wrong ${load.wrong.length}, failed ${lost} of ${CLIENTS} in flight and ` +
      `${load.failed.length - lost} after that; ready ${readyAfterMs} ms after it was killed; upstream requests ${world.upstream.requests.length}\n`,
  )
  expect(lost).toBeLessThanOrEqual(CLIENTS)
  expect({ wrong: load.wrong, failedLater: load.failed.slice(lost) }).toEqual({ wrong: [], failedLater: [] })
  expect(await stored()).toEqual(before)
  await gateway.process.stop()
})

/** The contents of Redis, key by key, but for the mark of the console and the counter of its writes. */
async function stored(): Promise<Record<string, string | null>> {
  const all = await world.redis.admin.keys('*')
  const names = all.filter(name => !/^postern:key:(announced|written)/.test(name)).toSorted()
  return Object.fromEntries(
    await Promise.all(names.map(async name => [name, await world.redis.admin.get(name)])),
  )
}
