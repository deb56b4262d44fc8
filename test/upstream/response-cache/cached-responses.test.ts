import { gzipSync } from 'node:zlib'
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
import { ManualClock } from '../../support/manual-clock.ts'
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
/** What makes the gateway read its settings again. */
let reload: () => void

async function start(script: Script, settings: Partial<UpstreamSettings> = {}) {
  clock = new ManualClock()
  upstream = await startScriptedUpstream(script)
  const prepared: (() => () => void)[] = []
  gateway = await startForwardingApp(
    upstream.url,
    { cache: { maxBytes: 4_000_000 }, ...settings },
    {
      shareAnswers: true,
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

const ask = (path = WORKSPACE_PATH, headers: Record<string, string> = {}) => get(gateway.port, path, headers)
const result = (name: string) =>
  metricValue(gateway.metrics, 'postern_shared_answers_total', { result: name })
/** Each answer another, so that one sees which it was. */
const numbered =
  (...lines: string[]): Script =>
  request =>
    request.send(json(`"${request.number}"`, lines.map(line => `${line}\r\n`).join('')))
/** Two requests, one after the other: whether the upstream was asked for the second. */
async function askedTwice(path?: string, headers?: Record<string, string>): Promise<boolean> {
  const before = upstream.requests.length
  await ask(path, headers)
  await ask(path, headers)
  return upstream.requests.length - before === 2
}

test('what the upstream lets be kept is given again, with its age, until that time has passed', async () => {
  await start(numbered('Cache-Control: max-age=60', 'ETag: "7"', 'Link: </a>; rel=next', 'Server: x'))
  const first = await ask()
  clock.advance(59_000)
  const second = await ask()
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
  expect((await ask()).text).toBe('"1"')
})

test('an age that the answer had already counts', async () => {
  await start(numbered('Cache-Control: max-age=60', 'Age: 50'))
  await ask()
  clock.advance(9000)
  expect((await ask()).headers.age).toBe('59')
  clock.advance(1000)
  expect((await ask()).text).toBe('"1"')
})

test.each([
  ['nothing', []],
  ['no-store', ['Cache-Control: no-store']],
  ['No-Store', ['Cache-Control: max-age=60, No-Store']],
  ['private', ['Cache-Control: private, max-age=60']],
  ['a cookie', ['Cache-Control: max-age=60', 'Set-Cookie: a=b']],
  ['Vary: *', ['Cache-Control: max-age=60', 'Vary: *']],
  ['Vary: the key', ['Cache-Control: max-age=60', 'Vary: X-Postern-Key-Id']],
  ['a validator alone', ['ETag: "7"']],
])('with %s nothing is kept', async (_, lines) => {
  await start(numbered(...lines))
  expect(await askedTwice()).toBe(true)
})

test.each(['404 No', '410 Gone', '500 No', '503 No', '201 Made', '203 Seen'])(
  '%s is not kept, whatever it says',
  async status => {
    await start(request =>
      request.send(json('{}', 'Cache-Control: max-age=60\r\n').replace('200 OK', status)),
    )
    expect(await askedTwice()).toBe(true)
  },
)

test.each([
  ['path', FILES_PATH, {}],
  ['query', `${FILES_PATH}?limit=1`, {}],
  ['language', WORKSPACE_PATH, { 'Accept-Language': 'de' }],
  ['coding', WORKSPACE_PATH, { 'Accept-Encoding': 'gzip' }],
  ['host', WORKSPACE_PATH, { Host: 'evil.example' }],
])('what was kept for another %s is not given, whether Vary names it or not', async (_, path, headers) => {
  await start(numbered('Cache-Control: max-age=60', 'Vary: Accept-Language'))
  await ask()
  expect((await ask(path, headers)).text).toBe('"1"')
  expect((await ask(path, headers)).text).toBe('"1"')
  expect((await ask()).text).toBe('"0"')
})

test('a coded answer is given byte for byte, large or small', async () => {
  const packed = gzipSync('{"id":"ws_1"}')
  const large = Buffer.from(JSON.stringify('é'.repeat(100_000)))
  const head = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: max-age=60\r\n'
  await start(request => {
    const coded = request.target === WORKSPACE_PATH
    const body = coded ? packed : large
    const coding = coded ? 'Content-Encoding: gzip\r\n' : ''
    request.send(`${head}${coding}Content-Length: ${body.length}\r\n\r\n`, body)
  })
  for (let turn = 0; turn < 2; turn++) {
    expect((await ask()).body.equals(packed)).toBe(true)
    expect((await ask(FILES_PATH)).body.equals(large)).toBe(true)
  }
  expect(upstream.requests).toHaveLength(2)
})

test('a client that has a kept answer already is told so without the upstream being asked', async () => {
  await start(numbered('Cache-Control: max-age=60', 'ETag: "7"', 'Content-Language: de'))
  await ask()
  const answer = await ask(WORKSPACE_PATH, { 'If-None-Match': '"6", W/"7"' })
  expect(answer).toMatchObject({ status: 304, text: '', complete: true })
  expect(answer.headers).toMatchObject({ etag: '"7"', 'cache-control': 'max-age=60', age: '0' })
  expect(answer.headers).not.toHaveProperty('content-length')
  expect(answer.headers).not.toHaveProperty('content-type')
  expect(await ask(WORKSPACE_PATH, { 'If-None-Match': '"8"' })).toMatchObject({ status: 200, text: '"0"' })
  expect(upstream.requests).toHaveLength(1)
})

/** Answers 304 to whoever has the tag, and anything else with that tag. */
const tagged =
  (tag: () => string, cacheControl: string): Script =>
  request => {
    const lines = `ETag: ${tag()}\r\nCache-Control: ${cacheControl}\r\n`
    const same = request.headers.get('if-none-match') === tag()
    request.send(same ? `HTTP/1.1 304 Same\r\n${lines}\r\n` : json(`"${request.number}"`, lines))
  }

test.each(['max-age=60', 'no-cache', 'max-age=0, must-revalidate'])(
  'with %s the upstream is asked once it is stale whether it is still the answer: if so, all are given it',
  async cacheControl => {
    let tag = '"7"'
    await start(tagged(() => tag, cacheControl))
    await ask()
    clock.advance(61_000)
    const later = await Promise.all([ask(), ask(), ask(WORKSPACE_PATH, { 'If-None-Match': '"7"' })])
    expect(later.map(({ status, text }) => [status, text])).toEqual([
      [200, '"0"'],
      [200, '"0"'],
      [304, ''],
    ])
    expect(later.filter(({ headers }) => Number(headers.age ?? 0) > 0)).toEqual([])
    expect(upstream.requests.slice(1).map(({ headers }) => headers.get('if-none-match'))).toContain('"7"')
    // Who comes after the upstream has said so finds it fresh.
    expect(await result('revalidated')).toBeGreaterThan(0)
    expect((await result('revalidated')) + (await result('cache'))).toBe(3)

    tag = '"8"'
    clock.advance(61_000)
    const asked = upstream.requests.length
    expect((await ask(WORKSPACE_PATH, { 'If-None-Match': '"7"' })).text).toBe(`"${asked}"`)
    // Whose validator that was is its own affair: the upstream was asked with that of the kept answer.
    expect((await ask()).text).toBe(`"${asked}"`)
  },
)

test('one that was found to be the answer still is kept for as long again', async () => {
  await start(tagged(() => '"7"', 'max-age=60'))
  for (let turn = 0; turn < 5; turn++) {
    await ask()
    clock.advance(40_000)
  }
  // At 0, 80 and 160 s.
  expect(upstream.requests).toHaveLength(3)
})

test.each([
  ['the upstream fails', 'HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n', 503],
  ['it is no longer there', 'HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n', 404],
  ['it breaks off', 'cut', 502],
])('what is stale is not given when %s', async (_, bytes, status) => {
  await start(tagged(() => '"7"', 'max-age=60'))
  await ask()
  clock.advance(61_000)
  upstream.script = request =>
    bytes === 'cut'
      ? request.socket.end(
          'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: max-age=60\r\nContent-Length: 9\r\n\r\n"',
        )
      : request.send(bytes)
  expect((await ask()).status).toBe(status)
})

test('an answer that breaks off is neither given nor kept', async () => {
  const head = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: max-age=60\r\n'
  await start(request => request.socket.end(`${head}Content-Length: 50\r\n\r\n{"half":`))
  expect((await ask()).status).toBe(502)
  upstream.script = numbered('Cache-Control: max-age=60')
  expect((await ask()).text).toBe('"1"')
})

test('a 304 that speaks of another answer renews nothing: each asks with what it has itself', async () => {
  await start(tagged(() => '"7"', 'max-age=60'))
  await ask()
  clock.advance(61_000)
  upstream.script = request =>
    request.headers.has('if-none-match')
      ? request.send('HTTP/1.1 304 Same\r\nETag: "9"\r\n\r\n')
      : request.send(json('"whole"'))
  expect(await ask()).toMatchObject({ status: 200, text: '"whole"' })
})

test('a client may want a fresher one, or one that nobody else will be given', async () => {
  await start(numbered('Cache-Control: max-age=60', 'ETag: "7"'))
  await ask()
  expect((await ask(WORKSPACE_PATH, { 'Cache-Control': 'no-cache' })).text).toBe('"1"')
  expect((await ask()).text).toBe('"1"')
  expect((await ask(WORKSPACE_PATH, { 'Cache-Control': 'no-store' })).text).toBe('"2"')
  expect((await ask()).text).toBe('"1"')
})

test.each([
  ['it is gone', 'HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n'],
  ['it may not be kept any more', json('"secret"', 'Cache-Control: no-store\r\n')],
])('once the upstream has told one client that %s, no other is given what was kept', async (_, bytes) => {
  await start(numbered('Cache-Control: max-age=60', 'ETag: "7"'))
  await ask()
  upstream.script = request => request.send(bytes)
  await ask(WORKSPACE_PATH, { 'Cache-Control': 'no-cache' })
  upstream.script = numbered('Cache-Control: max-age=60')
  expect((await ask()).text).toBe('"2"')
})

test('all who ask for what is not kept yet wait for one answer, and later ones find it', async () => {
  const asked: ScriptedRequest[] = []
  await start(request => void asked.push(request))
  const waiting: Promise<Answer>[] = Array.from({ length: 10 }, () => ask())
  await until(
    'all wait',
    () => gateway.requests.filter(({ observation }) => observation.phase === 'waiting').length === 10,
  )
  for (const request of asked) request.send(json('"kept"', 'Cache-Control: max-age=60\r\n'))
  expect(new Set((await Promise.all(waiting)).map(({ text }) => text))).toEqual(new Set(['"kept"']))
  expect((await ask()).text).toBe('"kept"')
  expect(upstream.requests).toHaveLength(1)
})

test('an older answer that comes late does not take the place of a newer one', async () => {
  const asked: ScriptedRequest[] = []
  await start(request => void asked.push(request))
  const older = ask(WORKSPACE_PATH, { 'If-None-Match': '"6"' })
  await upstream.received(1)
  clock.advance(10)
  const newer = ask()
  await upstream.received(2)
  asked[1]?.send(json('"newer"', 'Cache-Control: max-age=60\r\n'))
  await newer
  asked[0]?.send(json('"older"', 'Cache-Control: max-age=60\r\n'))
  expect((await older).text).toBe('"older"')
  expect((await ask()).text).toBe('"newer"')
})

test('when the settings of the upstream change, what it said before is forgotten, and what is under way', async () => {
  const asked: ScriptedRequest[] = []
  await start(numbered('Cache-Control: max-age=60'))
  await ask()
  upstream.script = request => void asked.push(request)
  const underWay = ask(FILES_PATH)
  await upstream.received(2)
  reload()
  asked[0]?.send(json('"before"', 'Cache-Control: max-age=60\r\n'))
  await underWay
  upstream.script = numbered('Cache-Control: max-age=60')
  expect((await ask()).text).toBe('"2"')
  expect((await ask(FILES_PATH)).text).toBe('"3"')
})

test('responses to three thousand different requests take no more memory than they may', async () => {
  const maxBytes = 500_000
  await start(numbered('Cache-Control: max-age=60'), { cache: { maxBytes } })
  const ask1000 = async (from: number) => {
    const languages = Array.from({ length: 1000 }, (_, index) => `x-${from + index}`)
    const one = async () => {
      for (let language = languages.pop(); language !== undefined; language = languages.pop()) {
        await ask(WORKSPACE_PATH, { 'Accept-Language': language })
      }
    }
    await Promise.all(Array.from({ length: 8 }, one))
  }
  for (let turn = 0; turn < 3; turn++) {
    await ask1000(turn * 1000)
    const bytes = await metricValue(gateway.metrics, 'postern_answer_cache_bytes', {})
    // There is one workspace only.
    expect(bytes).toBeLessThanOrEqual(maxBytes / 4 + 2000)
    expect(bytes).toBeGreaterThan(maxBytes / 5)
  }
  expect(upstream.requests).toHaveLength(3000)
})
