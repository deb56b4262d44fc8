import { randomBytes } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { importSigningSecret, mintSecret } from '../../src/domain/key/secret.ts'
import { processorTimeUs } from '../bench/processor-time.ts'
import { Attackers } from '../support/attackers.ts'
import { type LoadFigures, loadClosed } from '../support/closed-loop.ts'
import { sendPipelined } from '../support/pipelined-load.ts'
import { get, RawClient } from '../support/raw-client.ts'
import { scrape, scrapeOne, sumOf } from '../support/scrape.ts'
import { until } from '../support/until.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const TARGET = '/api/v1/workspaces/ws_1'
/** Within the usual limit of open files at both ends. */
const CROWD = 2_000
const PATIENCE_MS = 2_000
const LONG = 30_000

let world: World
let key: IssuedKey
let unloaded: LoadFigures

const honest = (accepted = 300) =>
  loadClosed(world.gateway.urls.gateway, { target: TARGET, secret: key.secret, connections: 4, accepted })
const openFiles = () => readdirSync(`/proc/${world.gateway.process.child.pid}/fd`).length

beforeAll(async () => {
  world = await startWorld({
    POSTERN_LOG_LEVEL: 'warn',
    POSTERN_GATEWAY_HEADERS_TIMEOUT_MS: String(PATIENCE_MS),
    // Overload shedding depends on the machine and has its own test.
    POSTERN_GATEWAY_MAX_LOOP_DELAY_MS: '60000',
    POSTERN_GATEWAY_MAX_CONNECTIONS: String(CROWD + 100),
  })
  key = await world.issue()
  await honest(200)
  unloaded = await honest()
})
afterAll(() => world.stop())
beforeEach(() => world.upstream.reset())

/** Well-behaved clients are unaffected: every response is 200. */
function expectServed(what: string, figures: LoadFigures): void {
  process.stdout.write(
    `\n${what}: ${figures.answers} honest requests beside it, ${figures.answers - (figures.statuses.get(200) ?? 0)} failed, ` +
      `p99 ${figures.p99Ms.toFixed(0)} ms (${unloaded.p99Ms.toFixed(0)} ms without)\n`,
  )
  expect([...figures.statuses.keys()]).toEqual([200])
}

test(`${CROWD} clients that never finish a request are each disconnected within the timeout`, async () => {
  const slow = new Attackers(world.gateway.urls.gateway)
  await slow.connect(CROWD, 'GET / HTTP/1.1\r\nHost: gw\r\nX-A: ')
  slow.sendRepeatedly('b', 500)
  expectServed(`${CROWD} slow requests`, await honest())
  await until('all are disconnected', () => slow.open === 0, LONG)
  slow.disconnect()
  expect([...slow.answers.keys()]).toEqual(['HTTP/1.1 408 Request Timeout'])
})

test(`${CROWD} clients that send nothing are each disconnected within the timeout`, async () => {
  const silent = new Attackers(world.gateway.urls.gateway)
  await silent.connect(CROWD)
  expectServed(`${CROWD} silent connections`, await honest())
  await until('all are disconnected', () => silent.open === 0, LONG)
  expect(silent.answers.size).toBe(0)
})

test('a request with a slow body is rejected after its head, without waiting for the body', async () => {
  const bodies = new Attackers(world.gateway.urls.gateway)
  const head = `${get(TARGET, key.secret).slice(0, -2)}Content-Length: 1000000\r\n\r\n`
  await bodies.connect(200, head)
  expectServed('200 slow bodies', await honest())
  await until('all are disconnected', () => bodies.open === 0, LONG)
  expect([...bodies.answers]).toEqual([['HTTP/1.1 400 Bad Request', 200]])
  expect(world.upstream.requests.filter(request => request.includes('ength'))).toEqual([])
})

test('connections above the limit are closed at once; connected clients are unaffected', async () => {
  const kept = new RawClient(world.gateway.urls.gateway)
  kept.send(get(TARGET, key.secret))
  expect((await kept.answers(1)).length).toBe(1)
  const crowd = new Attackers(world.gateway.urls.gateway)
  await crowd.connect(CROWD + 300)
  await until('the excess connections are closed', () => crowd.closed >= 200, LONG)
  kept.send(get(TARGET, key.secret))
  expect((await kept.answers(2)).map(({ status }) => status)).toEqual([200, 200])
  crowd.disconnect()
  await until('new clients are served', async () => {
    const newcomer = new RawClient(world.gateway.urls.gateway)
    newcomer.send(get(TARGET, key.secret))
    const served = (await newcomer.answers(1)).length === 1
    newcomer.end()
    return served
  })
  kept.end()
})

test('opening and closing connections leaks no file descriptor', async () => {
  await honest(100)
  const before = openFiles()
  const shortLived = new Attackers(world.gateway.urls.gateway)
  const churn = async () => {
    for (let round = 0; round < 10; round++) {
      await shortLived.connect(300, 'GET ')
      shortLived.disconnect()
    }
  }
  const [figures] = await Promise.all([honest(), churn()])
  expectServed('3000 connections opened and closed', figures)
  await until('file descriptors are closed', () => openFiles() <= before + 4)
})

test('requests that clients abandon at once cause no extra upstream requests and do not starve other clients', async () => {
  world.upstream.hold = () => new Promise(resolve => setTimeout(resolve, 5))
  const leaving = new Attackers(world.gateway.urls.gateway)
  let sent = 0
  const rush = async () => {
    for (let round = 0; round < 20; round++) {
      await leaving.connect(100, get(TARGET, key.secret, 'User-Agent: rush'))
      sent += 100
      leaving.disconnect()
    }
  }
  const [figures] = await Promise.all([honest(), rush()])
  expectServed('2000 requests sent and abandoned', figures)
  const arrived = world.upstream.requests.filter(request => request.includes('rush')).length
  process.stdout.write(`of ${sent} abandoned, ${arrived} reached the upstream\n`)
  expect(arrived).toBeLessThanOrEqual(sent)
  await until('nothing is in flight', async () => {
    return (await scrapeOne(world.gateway.urls.ops, 'postern_http_requests_in_flight')) === 0
  })
})

test('a client that pipelines thousands of requests does not affect others', async () => {
  const rest = honest()
  const statuses = await sendPipelined(world.gateway.urls.gateway, 2_000, () => get(TARGET, key.secret), 2)
  expectServed('2000 pipelined requests on two connections', await rest)
  expect([...statuses.values()].reduce((sum, count) => sum + count, 0)).toBe(2_000)
})

test('well-formed keys that were never issued do not slow down clients with valid keys', async () => {
  const signing = importSigningSecret(Buffer.from(world.env['POSTERN_KEYS_SIGNING_SECRETS'] ?? '', 'base64'))
  const forged = () => mintSecret('wsk_', randomBytes(32), signing).reveal()
  const rest = honest(600)
  const statuses = await sendPipelined(world.gateway.urls.gateway, 1_500, () => get(TARGET, forged()), 2)
  expectServed('1500 unknown keys with a valid MAC', await rest)
  process.stdout.write(`responses to unknown keys: ${JSON.stringify([...statuses])}\n`)
  expect([...statuses.keys()].filter(status => ![401, 503].includes(status))).toEqual([])
})

test('malformed keys cost no lookup', async () => {
  const lookups = async () =>
    sumOf(await scrape(world.gateway.urls.ops), 'postern_key_cache_lookups_total', 'memory')
  const before = await lookups()
  const junk = () => get(TARGET, `wsk_${randomBytes(40).toString('hex').slice(0, 54)}`)
  const statuses = await sendPipelined(world.gateway.urls.gateway, 2_000, junk, 2)
  expect([...statuses]).toEqual([[401, 2_000]])
  expect(await lookups()).toBe(before)
})

test.each([
  ['path', () => get(`/api/v1/workspaces/${'a'.repeat(7_000)}`, key.secret)],
  ['path of dot segments', () => get(`/api/v1${'/..'.repeat(2_000)}`, key.secret)],
  ['path of percent-encoded dots', () => get(`/api/v1/workspaces/${'%2e'.repeat(2_000)}`, key.secret)],
  ['query', () => get(`${TARGET}/files?limit=${'9'.repeat(7_000)}`, key.secret)],
  ['query of many parameters', () => get(`${TARGET}/files?${'a=b&'.repeat(1_700)}`, key.secret)],
  ['key', () => get(TARGET, `wsk_${'a'.repeat(7_000)}`)],
  ['key of spaces', () => get(TARGET, `${' '.repeat(7_000)}x`)],
  ['header', () => get(TARGET, undefined, `Accept: ${'a,'.repeat(6_000)}`)],
])('a long %s is handled in linear time', async (_what, long) => {
  const timed = async (request: () => string) => {
    // Processor time, because other programs may delay the responses.
    const pid = world.gateway.process.child.pid ?? 0
    const before = processorTimeUs(pid)
    await sendPipelined(world.gateway.urls.gateway, 200, request, 1)
    return (processorTimeUs(pid) - before) / 1000
  }
  await timed(long)
  const shortMs = await timed(() => get('/api/v1/nothing', key.secret))
  const longMs = await timed(long)
  // 40 times as many bytes; backtracking would take thousands of times as long.
  expect(longMs).toBeLessThan(40 * Math.max(shortMs, 10))
})
