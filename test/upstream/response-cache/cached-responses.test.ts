import { gzipSync } from 'node:zlib'
import { afterEach, expect, test } from 'vitest'
import type { UpstreamSettings } from '../../../src/upstream/pool/connection.ts'
import {
  FILES_PATH,
  type ForwardingApp,
  metricSum,
  startForwardingApp,
  WORKSPACE_PATH,
} from '../../support/forwarding-app.ts'
import { type Answer, exchangeRaw, get } from '../../support/http-client.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { runs } from '../../support/runs.ts'
import {
  json,
  type Script,
  type ScriptedRequest,
  type ScriptedUpstream,
  startScriptedUpstream,
} from '../../support/scripted-upstream.ts'
import { until } from '../../support/until.ts'

let upstream: ScriptedUpstream
let gateway: ForwardingApp
let clock: ManualClock
/** Reloads the settings of the gateway. */
let reload: () => void

async function start(script: Script, settings: Partial<UpstreamSettings> = {}) {
  clock = new ManualClock()
  upstream = await startScriptedUpstream(script)
  const prepared: (() => () => void)[] = []
  gateway = await startForwardingApp(
    upstream.url,
    { cache: { maxBytes: 4_000_000 }, ...settings },
    {
      coalesce: true,
      clock,
      onReload: prepare =>
        prepared.push(() => prepare({ ...settings, url: upstream.url } as UpstreamSettings)),
    },
  )
  reload = () => {
    for (const apply of prepared.slice(-1).map(prepare => prepare())) apply()
  }
}

afterEach(async () => {
  await gateway.stop()
  await upstream.stop()
})

const send = (path = WORKSPACE_PATH, headers: Record<string, string> = {}) => get(gateway.port, path, headers)
const result = (name: string) =>
  metricSum(gateway.metrics, 'postern_coalesced_requests_total', { result: name })
/** Each response holds the number of its request. */
const numbered =
  (...lines: string[]): Script =>
  request =>
    request.send(json(`"${request.number}"`, lines.map(line => `${line}\r\n`).join('')))
/** Sends two requests in sequence. @returns whether both reached the upstream */
async function bothForwarded(path?: string, headers?: Record<string, string>): Promise<boolean> {
  const before = upstream.requests.length
  await send(path, headers)
  await send(path, headers)
  return upstream.requests.length - before === 2
}

test('a cacheable response is reused with its age until it is stale', async () => {
  await start(numbered('Cache-Control: max-age=60', 'ETag: "7"', 'Link: </a>; rel=next', 'Server: x'))
  const first = await send()
  clock.advance(59_000)
  const second = await send()
  expect(first.headers).not.toHaveProperty('age')
  expect(second).toMatchObject({ status: 200, text: '"0"', complete: true })
  const { date: _date, age, ...headers } = second.headers
  expect(age).toBe('59')
  const { date: _firstDate, ...firstHeaders } = first.headers
  expect(headers).toEqual(firstHeaders)
  expect(headers).toMatchObject({ etag: '"7"', 'cache-control': 'max-age=60', link: '</a>; rel=next' })
  expect(await result('cache')).toBe(1)
  expect(gateway.requests.at(-1)?.observation).toMatchObject({
    shared: 'cache',
    source: 'upstream',
    responseBytes: 3,
  })

  clock.advance(2000)
  expect((await send()).text).toBe('"1"')
})

test('the age of the received response counts, also for a client’s own cache', async () => {
  await start(numbered('Cache-Control: max-age=60', 'Age: 50'))
  expect((await send()).headers.age).toBe('50')
  clock.advance(9000)
  const raw = await exchangeRaw(
    gateway.port,
    `GET ${WORKSPACE_PATH} HTTP/1.0\r\nHost: 127.0.0.1:${gateway.port}\r\n\r\n`,
  )
  expect(raw.text.match(/^Age: .*$/gim)).toEqual(['age: 59'])
  clock.advance(1000)
  expect((await send()).text).toBe('"1"')
})

test.each([
  ['no cache headers', []],
  ['no-store', ['Cache-Control: no-store']],
  ['No-Store', ['Cache-Control: max-age=60, No-Store']],
  ['private', ['Cache-Control: private, max-age=60']],
  ['a cookie', ['Cache-Control: max-age=60', 'Set-Cookie: a=b']],
  ['Vary: *', ['Cache-Control: max-age=60', 'Vary: *']],
  ['Vary with a per-caller field', ['Cache-Control: max-age=60', 'Vary: X-Postern-Key-Id']],
  ['only a validator', ['ETag: "7"']],
])('a response with %s is not cached', async (_, lines) => {
  await start(numbered(...lines))
  expect(await bothForwarded()).toBe(true)
})

test.each(['404 No', '410 Gone', '500 No', '503 No', '201 Made', '203 Seen'])(
  'a %s is not cached, also with max-age',
  async status => {
    await start(request =>
      request.send(json('{}', 'Cache-Control: max-age=60\r\n').replace('200 OK', status)),
    )
    expect(await bothForwarded()).toBe(true)
  },
)

test.each([
  ['path', FILES_PATH, {}],
  ['query', `${FILES_PATH}?limit=1`, {}],
  ['language', WORKSPACE_PATH, { 'Accept-Language': 'de' }],
  ['encoding', WORKSPACE_PATH, { 'Accept-Encoding': 'gzip' }],
  ['host', WORKSPACE_PATH, { Host: 'evil.example' }],
])('a cached response is not reused for another %s, with or without Vary', async (_, path, headers) => {
  await start(numbered('Cache-Control: max-age=60', 'Vary: Accept-Language'))
  await send()
  expect((await send(path, headers)).text).toBe('"1"')
  expect((await send(path, headers)).text).toBe('"1"')
  expect((await send()).text).toBe('"0"')
})

test('an encoded response is reused unchanged, large or small', async () => {
  const compressed = gzipSync('{"id":"ws_1"}')
  const large = Buffer.from(JSON.stringify('é'.repeat(100_000)))
  const head = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: max-age=60\r\n'
  await start(request => {
    const coded = request.target === WORKSPACE_PATH
    const body = coded ? compressed : large
    const coding = coded ? 'Content-Encoding: gzip\r\n' : ''
    request.send(`${head}${coding}Content-Length: ${body.length}\r\n\r\n`, body)
  })
  for (let turn = 0; turn < 2; turn++) {
    expect((await send()).body.equals(compressed)).toBe(true)
    expect((await send(FILES_PATH)).body.equals(large)).toBe(true)
  }
  expect(upstream.requests).toHaveLength(2)
})

test('a client with a matching validator gets a 304 without a request to the upstream', async () => {
  await start(numbered('Cache-Control: max-age=60', 'ETag: "7"', 'Content-Language: de'))
  await send()
  const response = await send(WORKSPACE_PATH, { 'If-None-Match': '"6", W/"7"' })
  expect(response).toMatchObject({ status: 304, text: '', complete: true })
  expect(response.headers).toMatchObject({ etag: '"7"', 'cache-control': 'max-age=60', age: '0' })
  expect(response.headers).not.toHaveProperty('content-length')
  expect(response.headers).not.toHaveProperty('content-type')
  expect(await send(WORKSPACE_PATH, { 'If-None-Match': '"8"' })).toMatchObject({ status: 200, text: '"0"' })
  expect(upstream.requests).toHaveLength(1)
})

/** Responds with 304 to a matching tag, and else with a 200 that has the tag. */
const tagged =
  (tag: () => string, cacheControl: string): Script =>
  request => {
    const lines = `ETag: ${tag()}\r\nCache-Control: ${cacheControl}\r\n`
    const same = request.headers.get('if-none-match') === tag()
    request.send(same ? `HTTP/1.1 304 Same\r\n${lines}\r\n` : json(`"${request.number}"`, lines))
  }

test.each(['max-age=60', 'no-cache', 'max-age=0, must-revalidate'])(
  'with %s a stale response is revalidated, and reused after a 304',
  async cacheControl => {
    let tag = '"7"'
    await start(tagged(() => tag, cacheControl))
    await send()
    clock.advance(61_000)
    const later = await Promise.all([send(), send(), send(WORKSPACE_PATH, { 'If-None-Match': '"7"' })])
    expect(later.map(({ status, text }) => [status, text])).toEqual([
      [200, '"0"'],
      [200, '"0"'],
      [304, ''],
    ])
    expect(later.filter(({ headers }) => Number(headers.age ?? 0) > 0)).toEqual([])
    expect(upstream.requests.slice(1).map(({ headers }) => headers.get('if-none-match'))).toContain('"7"')
    // A request that arrives after the revalidation finds a fresh response.
    expect(await result('revalidated')).toBeGreaterThan(0)
    expect((await result('revalidated')) + (await result('cache'))).toBe(3)

    tag = '"8"'
    clock.advance(61_000)
    const number = upstream.requests.length
    expect((await send(WORKSPACE_PATH, { 'If-None-Match': '"7"' })).text).toBe(`"${number}"`)
    // The revalidation used the validator of the cached response, not that of the client.
    expect((await send()).text).toBe(`"${number}"`)
  },
)

test('a revalidated response is fresh for its whole lifetime again', async () => {
  await start(tagged(() => '"7"', 'max-age=60'))
  for (let turn = 0; turn < 5; turn++) {
    await send()
    clock.advance(40_000)
  }
  // At 0, 80 and 160 s.
  expect(upstream.requests).toHaveLength(3)
})

test.each([
  ['the upstream fails', 'HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n', 503],
  ['the resource no longer exists', 'HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n', 404],
  ['the response is incomplete', 'cut', 502],
])('a stale response is not used if %s', async (_, bytes, status) => {
  await start(tagged(() => '"7"', 'max-age=60'))
  await send()
  clock.advance(61_000)
  upstream.script = request =>
    bytes === 'cut'
      ? request.socket.end(
          'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: max-age=60\r\nContent-Length: 9\r\n\r\n"',
        )
      : request.send(bytes)
  expect((await send()).status).toBe(status)
})

test('an incomplete response is neither sent nor cached', async () => {
  const head = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: max-age=60\r\n'
  await start(request => request.socket.end(`${head}Content-Length: 50\r\n\r\n{"half":`))
  expect((await send()).status).toBe(502)
  upstream.script = numbered('Cache-Control: max-age=60')
  expect((await send()).text).toBe('"1"')
})

test('a 304 with another tag refreshes nothing, and each request is forwarded on its own', async () => {
  await start(tagged(() => '"7"', 'max-age=60'))
  await send()
  clock.advance(61_000)
  upstream.script = request =>
    request.headers.has('if-none-match')
      ? request.send('HTTP/1.1 304 Same\r\nETag: "9"\r\n\r\n')
      : request.send(json('"complete"'))
  expect(await send()).toMatchObject({ status: 200, text: '"complete"' })
})

test('Cache-Control: no-cache and no-store of a client are respected', async () => {
  await start(numbered('Cache-Control: max-age=60', 'ETag: "7"'))
  await send()
  expect((await send(WORKSPACE_PATH, { 'Cache-Control': 'no-cache' })).text).toBe('"1"')
  expect((await send()).text).toBe('"1"')
  expect((await send(WORKSPACE_PATH, { 'Cache-Control': 'no-store' })).text).toBe('"2"')
  expect((await send()).text).toBe('"1"')
})

test.each([
  ['the response no longer exists', 'HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n'],
  ['it may no longer be cached', json('"secret"', 'Cache-Control: no-store\r\n')],
])('after one client learns that %s, no other client gets the cached response', async (_, bytes) => {
  await start(numbered('Cache-Control: max-age=60', 'ETag: "7"'))
  await send()
  upstream.script = request => request.send(bytes)
  await send(WORKSPACE_PATH, { 'Cache-Control': 'no-cache' })
  upstream.script = numbered('Cache-Control: max-age=60')
  expect((await send()).text).toBe('"2"')
})

test('concurrent requests for an uncached response are coalesced, and later ones use the cache', async () => {
  const received: ScriptedRequest[] = []
  await start(request => void received.push(request))
  const waiting: Promise<Answer>[] = Array.from({ length: 10 }, () => send())
  await until(
    'all requests wait',
    () => gateway.requests.filter(({ observation }) => observation.phase === 'waiting').length === 10,
  )
  for (const request of received) request.send(json('"cached"', 'Cache-Control: max-age=60\r\n'))
  expect(new Set((await Promise.all(waiting)).map(({ text }) => text))).toEqual(new Set(['"cached"']))
  expect((await send()).text).toBe('"cached"')
  expect(upstream.requests).toHaveLength(1)
})

test('a late response to an older request does not replace a newer one', async () => {
  const received: ScriptedRequest[] = []
  await start(request => void received.push(request))
  const older = send(WORKSPACE_PATH, { 'If-None-Match': '"6"' })
  await upstream.received(1)
  clock.advance(10)
  const newer = send()
  await upstream.received(2)
  received[1]?.send(json('"newer"', 'Cache-Control: max-age=60\r\n'))
  await newer
  received[0]?.send(json('"older"', 'Cache-Control: max-age=60\r\n'))
  expect((await older).text).toBe('"older"')
  expect((await send()).text).toBe('"newer"')
})

test('a reload of the upstream’s settings clears the cache, and responses in flight are not stored', async () => {
  const received: ScriptedRequest[] = []
  await start(numbered('Cache-Control: max-age=60'))
  await send()
  upstream.script = request => void received.push(request)
  const inFlight = send(FILES_PATH)
  await upstream.received(2)
  reload()
  received[0]?.send(json('"before"', 'Cache-Control: max-age=60\r\n'))
  await inFlight
  upstream.script = numbered('Cache-Control: max-age=60')
  expect((await send()).text).toBe('"2"')
  expect((await send(FILES_PATH)).text).toBe('"3"')
})

const TURN = runs(400, 1000)

test(`responses to ${3 * TURN} different requests stay within the memory limit`, async () => {
  const maxBytes = 500_000
  await start(numbered('Cache-Control: max-age=60'), { cache: { maxBytes } })
  const sendTurn = async (from: number) => {
    const languages = Array.from({ length: TURN }, (_, index) => `x-${from + index}`)
    const one = async () => {
      for (let language = languages.pop(); language !== undefined; language = languages.pop()) {
        await send(WORKSPACE_PATH, { 'Accept-Language': language })
      }
    }
    await Promise.all(Array.from({ length: 8 }, one))
  }
  for (let turn = 0; turn < 3; turn++) {
    await sendTurn(turn * TURN)
    const bytes = await metricSum(gateway.metrics, 'postern_response_cache_bytes', {})
    // A single workspace may use a quarter of the capacity.
    expect(bytes).toBeLessThanOrEqual(maxBytes / 4 + 2000)
    expect(bytes).toBeGreaterThan(maxBytes / 5)
  }
  expect(upstream.requests).toHaveLength(3 * TURN)
})
