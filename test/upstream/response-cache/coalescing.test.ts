import { once } from 'node:events'
import { connect } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import type { UpstreamSettings } from '../../../src/upstream/pool/connection.ts'
import {
  FILES_PATH,
  type ForwardingApp,
  metricValue,
  startForwardingApp,
  WORKSPACE_PATH,
} from '../../support/forwarding-app.ts'
import { type Answer, get } from '../../support/http-client.ts'
import { json, type ScriptedUpstream, startScriptedUpstream } from '../../support/scripted-upstream.ts'
import { until } from '../../support/until.ts'

const ASKERS = 20
const HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n'
const BOUND = 256 * 1024

let upstream: ScriptedUpstream
let gateway: ForwardingApp

/** An upstream that answers when it is told to. */
async function start(settings: Partial<UpstreamSettings> = {}) {
  upstream = await startScriptedUpstream(() => {})
  gateway = await startForwardingApp(upstream.url, settings, { shareAnswers: true })
}

afterEach(async () => {
  await gateway.stop()
  await upstream.stop()
})

const ask = (path = WORKSPACE_PATH, headers = {}) => get(gateway.port, path, headers)
const askAll = (count = ASKERS): Promise<Answer>[] => Array.from({ length: count }, () => ask())
const waiting = (count: number) =>
  until(
    `${count} wait`,
    () => gateway.requests.filter(({ observation }) => observation.phase === 'waiting').length === count,
  )
const results = async () => {
  const names = ['upstream', 'joined', 'unshared']
  const values = names.map(result => metricValue(gateway.metrics, 'postern_shared_answers_total', { result }))
  return Object.fromEntries((await Promise.all(values)).map((value, index) => [names[index], value]))
}
/** What the upstream says to the first request, and to each that comes after. */
const answer = (...bytes: (string | Buffer)[]) => {
  upstream.script = request => request.send(...bytes)
  for (const request of upstream.requests) request.send(...bytes)
}
const different = (answers: readonly Answer[]) => [
  ...new Set(answers.map(({ status, text, complete }) => JSON.stringify([status, text, complete]))),
]

test('who asks what is being asked already is given the same answer, and the upstream is asked once', async () => {
  await start()
  const asked = askAll()
  await waiting(ASKERS)
  answer(json('{"id":"ws_1"}', 'ETag: "7"\r\nServer: x\r\n'))
  const answers = await Promise.all(asked)
  expect(different(answers)).toEqual(['[200,"{\\"id\\":\\"ws_1\\"}",true]'])
  for (const { headers } of answers) {
    expect(headers).toMatchObject({ etag: '"7"', 'content-length': '13', 'cache-control': 'private' })
    expect(headers).not.toHaveProperty('server')
  }
  expect(upstream.requests).toHaveLength(1)
  expect(await results()).toEqual({ upstream: 1, joined: ASKERS - 1, unshared: 0 })
  expect(gateway.requests.filter(({ observation }) => observation.shared === 'joined')).toHaveLength(
    ASKERS - 1,
  )
  // What is over is over: nothing was kept.
  await ask()
  expect(upstream.requests).toHaveLength(2)
})

test('where nothing is set, each asks for itself', async () => {
  upstream = await startScriptedUpstream(() => {})
  gateway = await startForwardingApp(upstream.url)
  const asked = askAll(3)
  await upstream.received(3)
  answer(json('{}'))
  await Promise.all(asked)
})

test.each([
  ['path', FILES_PATH, {}],
  ['query', `${FILES_PATH}?limit=1`, {}],
  ['kind of content', WORKSPACE_PATH, { Accept: 'application/json' }],
  ['coding', WORKSPACE_PATH, { 'Accept-Encoding': 'gzip' }],
  ['language', WORKSPACE_PATH, { 'Accept-Language': 'de' }],
  ['validator', WORKSPACE_PATH, { 'If-None-Match': '"7"' }],
  ['date', WORKSPACE_PATH, { 'If-Modified-Since': 'Wed, 21 Oct 2026 07:28:00 GMT' }],
  ['program', WORKSPACE_PATH, { 'User-Agent': 'other' }],
  ['name of this host, of which links may be made', WORKSPACE_PATH, { Host: 'evil.example' }],
])('who asks for another %s asks something else', async (_, path, headers) => {
  await start()
  const asked = [ask(), ask(path, headers)]
  await upstream.received(2)
  for (const request of upstream.requests) request.send(json(`"${request.number}"`))
  expect(new Set((await Promise.all(asked)).map(({ text }) => text)).size).toBe(2)
})

test('who asks when the answer has begun comes too late for it', async () => {
  await start()
  const first = ask()
  await upstream.received(1)
  upstream.requests[0]?.send(`${HEAD}Content-Length: 2\r\n\r\n`, '{')
  await until('the first is answered', () => gateway.requests[0]?.observation.phase === 'streaming')
  const second = ask()
  await upstream.received(2)
  upstream.requests[0]?.send('}')
  upstream.requests[1]?.send(json('"new"'))
  expect((await first).text).toBe('{}')
  expect((await second).text).toBe('"new"')
})

test.each([
  ['its 404', 'HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n', 404, 'upstream_not_found'],
  ['its 503', 'HTTP/1.1 503 No\r\nContent-Length: 0\r\nVary: *\r\n\r\n', 503, 'upstream_unavailable'],
  ['its 500', 'HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n', 502, 'upstream_error'],
  ['a page', json('<p>').replace('/json', '/html'), 502, 'upstream_error'],
  ['nonsense', 'nonsense\r\n\r\n', 502, 'upstream_error'],
])('%s is everybody’s', async (_, bytes, status, code) => {
  await start()
  const asked = askAll()
  await waiting(ASKERS)
  answer(bytes)
  expect(different(await Promise.all(asked))).toEqual([
    JSON.stringify([status, JSON.stringify({ code, error: 'Refused' }), true]),
  ])
  expect(upstream.requests).toHaveLength(1)
  const [, digits] = /^HTTP\/1\.1 (\d+)/.exec(bytes) ?? []
  const upstreamStatus = digits === undefined ? null : Number(digits)
  for (const { observation } of gateway.requests) expect(observation).toMatchObject({ upstreamStatus })
})

test('a rejection is everybody’s, with its own words and the time to wait', async () => {
  await start()
  const asked = askAll()
  await waiting(ASKERS)
  const rejection = json('{"code":"slow","error":"Slowly"}', 'Retry-After: 9\r\n')
  answer(rejection.replace('200 OK', '429 Slowly'))
  const answers = await Promise.all(asked)
  expect(different(answers)).toEqual([JSON.stringify([429, '{"code":"slow","error":"Slowly"}', true])])
  expect(answers.map(({ headers }) => headers['retry-after'])).toEqual(answers.map(() => '9'))
  expect(upstream.requests).toHaveLength(1)
})

test('a 304 is everybody’s who asked with the same validator', async () => {
  await start()
  const asked = Array.from({ length: 3 }, () => ask(WORKSPACE_PATH, { 'If-None-Match': '"7"' }))
  await waiting(3)
  answer('HTTP/1.1 304 Same\r\nETag: "7"\r\n\r\n')
  const answers = await Promise.all(asked)
  expect(different(answers)).toEqual(['[304,"",true]'])
  for (const { headers } of answers) {
    expect(headers.etag).toBe('"7"')
    expect(headers).not.toHaveProperty('content-length')
  }
  expect(upstream.requests).toHaveLength(1)
})

test('an upstream that does not answer in time keeps all of them waiting so long and no longer', async () => {
  await start({ headersTimeoutMs: 150 })
  const answers = await Promise.all(askAll())
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 504))
  expect(upstream.requests).toHaveLength(1)
})

test.each([
  ['a length', 'Content-Length: 50\r\n\r\n{"half":'],
  ['chunks', 'Transfer-Encoding: chunked\r\n\r\n8\r\n{"half":\r\n'],
])('an answer with %s that breaks off is nobody’s: all hear that there is none', async (_, rest) => {
  await start()
  const asked = askAll()
  await waiting(ASKERS)
  for (const request of upstream.requests) request.socket.end(HEAD + rest)
  const answers = await Promise.all(asked)
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 502))
  expect(gateway.requests.map(({ observation }) => observation.fault)).toEqual(answers.map(() => 'truncated'))
  expect(upstream.requests).toHaveLength(1)
})

const long = JSON.stringify('x'.repeat(2 * BOUND))
const chunk = `${long.length.toString(16)}\r\n${long}\r\n0\r\n\r\n`
test.each([
  ['says so', json(long)],
  ['does not say so', `${HEAD}Transfer-Encoding: chunked\r\n\r\n${chunk}`],
])('one that is too long to be held and %s is asked for by each, who all get it whole', async (_, bytes) => {
  await start()
  const asked = askAll(6)
  await waiting(6)
  answer(bytes)
  expect(different(await Promise.all(asked))).toEqual([JSON.stringify([200, long, true])])
  expect(upstream.requests).toHaveLength(6)
  expect(await results()).toEqual({ upstream: 1, joined: 0, unshared: 5 })
})

test('one that grows too long and then breaks off looks whole to nobody', async () => {
  await start()
  const asked = askAll(3)
  await waiting(3)
  const half = `${HEAD}Content-Length: ${4 * BOUND}\r\n\r\n${long}`
  upstream.script = request => request.socket.end(half)
  for (const request of upstream.requests) request.socket.end(half)
  expect((await Promise.all(asked)).map(({ complete }) => complete)).toEqual([false, false, false])
})

test.each(['X-Postern-Key-Id', '*'])('one with Vary: %s is the first one’s alone', async vary => {
  await start()
  const asked = askAll(5)
  await waiting(5)
  upstream.script = request => request.send(json(`"${request.number}"`, `Vary: ${vary}\r\n`))
  for (const request of upstream.requests) upstream.script(request)
  expect(new Set((await Promise.all(asked)).map(({ text }) => text)).size).toBe(5)
  expect(upstream.requests).toHaveLength(5)
})

/** A client that can leave. */
async function leaver(path = WORKSPACE_PATH) {
  const socket = connect(gateway.port, '127.0.0.1').on('error', () => {})
  socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${gateway.port}\r\n\r\n`)
  return {
    async leave() {
      socket.destroy()
      await once(socket, 'close')
    },
  }
}
const left = (count: number) =>
  until(
    `${count} have left`,
    async () => (await metricValue(gateway.metrics, 'postern_http_client_aborts_total', {})) === count,
  )

test('that the one who asked first leaves is nothing to the others, nor to the upstream', async () => {
  await start()
  const first = await leaver()
  await upstream.received(1)
  const asked = askAll(3)
  await waiting(4)
  await first.leave()
  await left(1)
  answer(json('{}'))
  expect(different(await Promise.all(asked))).toEqual(['[200,"{}",true]'])
  expect(upstream.requests).toHaveLength(1)
})

test('where the first has left, a long answer is streamed to the next', async () => {
  await start()
  const first = await leaver()
  await upstream.received(1)
  const asked = askAll(2)
  await waiting(3)
  await first.leave()
  await left(1)
  answer(json(long))
  expect(different(await Promise.all(asked))).toEqual([JSON.stringify([200, long, true])])
  expect(upstream.requests).toHaveLength(2)
})

test.each([
  ['before its answer', []],
  ['in the middle of it', [`${HEAD}Content-Length: 50\r\n\r\n{"half":`]],
])('when all have left %s the upstream need not go on', async (_, begun) => {
  // No deadline ends it in their place.
  await start({ headersTimeoutMs: 60_000, bodyIdleTimeoutMs: 60_000, totalTimeoutMs: 60_000 })
  const leavers = await Promise.all([leaver(), leaver(), leaver()])
  await waiting(3)
  upstream.requests[0]?.send(...begun)
  for (const { leave } of leavers) await leave()
  await upstream.disconnected(1)
  // Nobody waits for it any more, so the next asks anew.
  const asked = ask()
  await upstream.received(2)
  upstream.requests[1]?.send(json('{}'))
  expect((await asked).status).toBe(200)
})

test('two on one connection, the second sent before the first is answered, get one answer each, in order', async () => {
  await start()
  const socket = connect(gateway.port, '127.0.0.1')
  const head = `GET ${WORKSPACE_PATH} HTTP/1.1\r\nHost: a\r\n`
  socket.write(`${head}\r\n${head}Connection: close\r\n\r\n`)
  await waiting(2)
  answer(json('"both"'))
  const received: Buffer[] = []
  socket.on('data', bytes => received.push(bytes))
  await once(socket, 'close')
  const text = Buffer.concat(received).toString()
  expect(text.split('HTTP/1.1 200 OK').slice(1)).toEqual([
    expect.stringMatching(/"both"$/),
    expect.stringMatching(/"both"$/),
  ])
  expect(upstream.requests).toHaveLength(1)
})

test('where no connection is free, those who ask the same take one place in the queue', async () => {
  await start({ connections: 1, queue: { maxRequests: 1, maxWaitMs: 60_000 } })
  const other = ask(FILES_PATH)
  await upstream.received(1)
  const asked = askAll()
  await waiting(ASKERS + 1)
  answer(json('{}'))
  expect(different(await Promise.all([other, ...asked]))).toEqual(['[200,"{}",true]'])
})
