import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { exchange, field, get, RawClient } from '../support/raw-client.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

let world: World
let key: IssuedKey
const WORKSPACE = '/api/v1/workspaces/ws_1'

beforeAll(async () => {
  world = await startWorld()
  key = await world.issue()
})
afterAll(() => world.stop())
beforeEach(() => world.upstream.reset())

const head = (...lines: string[]) =>
  [`GET ${WORKSPACE} HTTP/1.1`, 'Host: gw', `Authorization: Bearer ${key.secret}`, ...lines, '', ''].join(
    '\r\n',
  )

/** Sends bytes and, on the same connection, a valid request, in front of which a smuggled one would appear. */
async function sendWithMarker(bytes: string) {
  const client = new RawClient(world.gateway.urls.gateway)
  client.send(bytes + get(`${WORKSPACE}/files?limit=7`, key.secret))
  return client.untilClosed()
}

describe('ambiguous framing is rejected, the connection closes, and the upstream receives nothing', () => {
  const smuggled = 'GET /admin HTTP/1.1\r\nHost: evil123456\r\n\r\n'
  const cases: [name: string, bytes: () => string, status: number][] = [
    [
      'Content-Length and Transfer-Encoding',
      () => `${head('Content-Length: 5', 'Transfer-Encoding: chunked')}0\r\n\r\nX`,
      400,
    ],
    [
      'Transfer-Encoding and Content-Length',
      () => `${head('Transfer-Encoding: chunked', 'Content-Length: 5')}0\r\n\r\nX`,
      400,
    ],
    ['an empty element in Transfer-Encoding', () => `${head('Transfer-Encoding: ,chunked')}0\r\n\r\n`, 400],
    ['an unknown coding', () => `${head('Transfer-Encoding: xchunked')}0\r\n\r\n`, 400],
    ['identity', () => `${head('Transfer-Encoding: identity')}`, 400],
    ['chunked twice', () => `${head('Transfer-Encoding: chunked, chunked')}0\r\n\r\n`, 400],
    ['a vertical tab before the coding', () => `${head('Transfer-Encoding:\x0bchunked')}0\r\n\r\n`, 400],
    ['a no-break space before the coding', () => `${head('Transfer-Encoding: \xa0chunked')}0\r\n\r\n`, 400],
    [
      'a coding in HTTP/1.0',
      () => `${head('Transfer-Encoding: chunked').replace('HTTP/1.1', 'HTTP/1.0')}0\r\n\r\n`,
      400,
    ],
    ['two lengths', () => `${head('Content-Length: 5', 'Content-Length: 6')}hello`, 400],
    ['a list of lengths', () => `${head('Content-Length: 5, 5')}hello`, 400],
    ['a signed length', () => `${head('Content-Length: +5')}hello`, 400],
    ['a hexadecimal length', () => `${head('Content-Length: 0x5')}hello`, 400],
    ['a negative length', () => `${head('Content-Length: -1')}`, 400],
    ['an overflowing length', () => `${head('Content-Length: 18446744073709551616')}`, 400],
    ['an empty length', () => `${head('Content-Length: ')}`, 400],
    ['a body on a GET', () => `${head(`Content-Length: ${smuggled.length}`)}${smuggled}`, 400],
    ['a chunked body on a GET', () => `${head('Transfer-Encoding: chunked')}5\r\nhello\r\n0\r\n\r\n`, 400],
    ['a zero-padded length', () => `${head('Content-Length: 005')}hello`, 400],
    ['a compression before chunked', () => `${head('Transfer-Encoding: gzip, chunked')}0\r\n\r\n`, 400],
    ['identity after chunked', () => `${head('Transfer-Encoding: chunked, identity')}0\r\n\r\n`, 400],
    [
      'a next-line character before the coding',
      () => `${head('Transfer-Encoding:\x85chunked')}0\r\n\r\n`,
      400,
    ],
    [
      'a coding on two lines',
      () => `${head('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked')}0\r\n\r\n`,
      400,
    ],
    ['a length with an underscore', () => `${head('Content-Length: 5_0')}hello`, 400],
    ['a length in octal', () => `${head('Content-Length: 010')}hellohel`, 400],
    [
      'a chunk extension of 64 KiB',
      () => `${head('Transfer-Encoding: chunked')}5;ext=${'a'.repeat(65_536)}\r\nhello\r\n0\r\n\r\n`,
      400,
    ],
    [
      'a chunk size with a bare line feed',
      () => `${head('Transfer-Encoding: chunked')}5\nhello\r\n0\r\n\r\n`,
      400,
    ],
    ['a chunk size below zero', () => `${head('Transfer-Encoding: chunked')}-1\r\nhello\r\n0\r\n\r\n`, 400],
    [
      'a chunk size in another notation',
      () => `${head('Transfer-Encoding: chunked')}0x5\r\nhello\r\n0\r\n\r\n`,
      400,
    ],
    [
      'a chunk size that overflows',
      () => `${head('Transfer-Encoding: chunked')}FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n`,
      400,
    ],
    [
      'trailers with a credential and a length',
      () => `${head('Transfer-Encoding: chunked')}0\r\nAuthorization: Bearer x\r\nContent-Length: 0\r\n\r\n`,
      400,
    ],
    [
      'an upgrade to a socket with a length',
      () =>
        `${head('Connection: Upgrade', 'Upgrade: websocket', `Content-Length: ${smuggled.length}`)}${smuggled}`,
      400,
    ],
    [
      'an upgrade to HTTP/2',
      () => head('Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__', 'Connection: Upgrade, HTTP2-Settings'),
      400,
    ],
    ['an upgrade that the connection does not name', () => head('Upgrade: websocket'), 400],
    ['two spaces before the target', () => head().replace('GET ', 'GET  '), 400],
    ['two spaces after the target', () => head().replace(' HTTP', '  HTTP'), 400],
    ['a port above 65535', () => head().replace('Host: gw', 'Host: gw:65536'), 400],
    ['an expectation with more before it', () => head('Expect: y 100-continue'), 400],
    ['a space after the protocol', () => head().replace('HTTP/1.1', 'HTTP/1.1 '), 400],
    ['a tab before the target', () => head().replace('GET ', 'GET\t'), 400],
    ['a name that is only a colon', () => head(':'), 400],
    ['a quote in a name', () => head('Na"me: v'), 400],
    ['a brace in a name', () => head('Na{me: v'), 400],
    ['a head that ends with a bare carriage return', () => `${head().slice(0, -2)}\rX`, 400],
    ['a folded line at the start', () => head().replace('Host', ' Host'), 400],
    ['a folded length', () => head('Content-Length:\r\n 5'), 400],
    ['a folded line', () => `${head('X: a\r\n b')}`, 400],
    [
      'a folded credential',
      () => `GET ${WORKSPACE} HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer\r\n ${key.secret}\r\n\r\n`,
      400,
    ],
    ['bare line feeds', () => `GET ${WORKSPACE} HTTP/1.1\nHost: gw\n\n`, 400],
    ['a bare line feed between lines', () => head('A: b\nC: d'), 400],
    ['a bare carriage return', () => head('A: b\rC: d'), 400],
    ['a line without a name', () => head(': v'), 400],
    ['a line without a colon', () => head('Name value'), 400],
    ['a space before the colon', () => head('Content-Length : 0'), 400],
    ['a name beyond ASCII', () => head('N\x85me: v'), 400],
    ['a parenthesis in a name', () => head('Na(me: v'), 400],
    ['an expectation', () => head('Expect: 100-continue'), 400],
    ['an unknown expectation', () => head('Expect: banana'), 400],
    ['HTTP/0.9', () => `GET ${WORKSPACE}\r\n\r\n`, 400],
    ['HTTP/1.2', () => head().replace('HTTP/1.1', 'HTTP/1.2'), 400],
    ['HTTP/2.0', () => head().replace('HTTP/1.1', 'HTTP/2.0'), 400],
    ['HTTP/0.9 by name', () => head().replace('HTTP/1.1', 'HTTP/0.9'), 400],
    ['a lower-case protocol', () => head().replace('HTTP/1.1', 'http/1.1'), 400],
    ['the preface of HTTP/2', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
    ['a TLS hello', () => '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400],
    ['the PROXY protocol', () => 'PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n', 400],
    ['no Host', () => `GET ${WORKSPACE} HTTP/1.1\r\nAuthorization: Bearer ${key.secret}\r\n\r\n`, 400],
    ['two Hosts', () => head('Host: gw'), 400],
    ['an empty Host', () => head().replace('Host: gw', 'Host: '), 400],
    ['a Host with a path', () => head().replace('Host: gw', 'Host: gw/evil'), 400],
    ['a NUL in the target', () => `GET ${WORKSPACE}\x00 HTTP/1.1\r\nHost: gw\r\n\r\n`, 400],
    ['a NUL in a value', () => head('X: a\x00b'), 400],
    ['an unknown method', () => head().replace('GET', 'BREW'), 400],
    ['a target above every limit', () => get(`${WORKSPACE}?${'a'.repeat(30_000)}`, key.secret), 414],
    ['a target over 8 KiB', () => get(`${WORKSPACE}?${'a'.repeat(8200)}`, key.secret), 414],
    ['headers over 16 KiB', () => head(`X: ${'a'.repeat(17_000)}`), 431],
    ['a head over 24 KiB', () => head(`X: ${'a'.repeat(30_000)}`), 431],
    ['101 header fields', () => head(...Array.from({ length: 99 }, (_, index) => `X-${index}: y`)), 431],
    [
      '2,100 header fields that hide a second credential',
      () =>
        `GET ${WORKSPACE} HTTP/1.1\r\nHost: gw\r\n${'a:b\r\n'.repeat(2100)}Authorization: Bearer ${key.secret}\r\n\r\n`,
      431,
    ],
  ]
  test.each(cases)('%s', async (_name, bytes, status) => {
    const answers = await sendWithMarker(bytes())
    expect(answers.map(answer => answer.status)).toEqual([status])
    const [answer] = answers
    expect(JSON.parse(answer?.body ?? '')).toEqual({
      code: status === 400 ? 'invalid_request' : 'request_too_large',
      error: expect.not.stringMatching(/\.$/),
    })
    expect(answer && field(answer, 'connection')).toBe('close')
    expect(answer && field(answer, 'x-request-id')).toBeDefined()
    expect(world.upstream.requests).toEqual([])
  })
})

describe('valid requests are served', () => {
  test('100 header fields', async () => {
    const answer = await exchange(
      world.gateway.urls.gateway,
      head(...Array.from({ length: 98 }, (_, index) => `X-${index}: y`)),
    )
    expect(answer.status).toBe(200)
  })

  test('a request that arrives one byte at a time', async () => {
    const client = new RawClient(world.gateway.urls.gateway)
    for (const byte of head()) {
      client.send(byte)
      await new Promise(resolve => setImmediate(resolve))
    }
    expect((await client.answers(1)).map(answer => answer.status)).toEqual([200])
    client.end()
  })

  test('HTTP/1.0, and a length of 0', async () => {
    expect((await exchange(world.gateway.urls.gateway, head().replace('HTTP/1.1', 'HTTP/1.0'))).status).toBe(
      200,
    )
    expect((await exchange(world.gateway.urls.gateway, head('Content-Length: 0'))).status).toBe(200)
  })

  test('a request split at any position is handled like one that arrives whole', async () => {
    const whole = head('Accept: application/json')
    const cuts = Array.from({ length: whole.length - 1 }, (_, index) => index + 1)
    const client = new RawClient(world.gateway.urls.gateway)
    for (const [count, cut] of cuts.entries()) {
      client.send(whole.slice(0, cut))
      await new Promise(resolve => setImmediate(resolve))
      client.send(whole.slice(cut))
      const answers = await client.answers(count + 1)
      expect([cut, answers.at(-1)?.status]).toEqual([cut, 200])
    }
    client.end()
    expect(new Set(world.upstream.requests.map(withoutId)).size).toBe(1)
    expect(world.upstream.requests).toHaveLength(cuts.length)
  })

  test('a few empty lines before a request are skipped; a hundred thousand do no harm', async () => {
    expect((await exchange(world.gateway.urls.gateway, `\r\n\r\n${head()}`)).status).toBe(200)
    const client = new RawClient(world.gateway.urls.gateway)
    client.send('\r\n'.repeat(100_000) + head())
    const [answer] = await client.answers(1)
    expect([200, 400, 431]).toContain(answer?.status)
    client.end()
    expect((await exchange(world.gateway.urls.gateway, head())).status).toBe(200)
  })

  test('header fields of 16 KiB in total are accepted, one byte more is rejected', async () => {
    const lines = head('X: ').trimEnd().split('\r\n').slice(1)
    const length = lines.reduce((sum, line) => sum + line.trimEnd().length + (line === 'X:' ? 3 : 2), 0)
    const withValue = (extra: number) => head(`X: ${'a'.repeat(16 * 1024 - length + extra)}`)
    expect((await exchange(world.gateway.urls.gateway, head(`X: ${'a'.repeat(8192)}`))).status).toBe(200)
    const statuses = [-1, 0, 1, 2].map(
      async extra => (await exchange(world.gateway.urls.gateway, withValue(extra))).status,
    )
    expect(await Promise.all(statuses)).toEqual([200, 200, 431, 431])
  })

  test('50 pipelined requests for two alternating workspaces are answered in order', async () => {
    const client = new RawClient(world.gateway.urls.gateway)
    const targets = Array.from({ length: 50 }, (_, index) =>
      index % 2 === 0 ? WORKSPACE : '/api/v1/workspaces/ws_2',
    )
    client.send(targets.map(target => get(target, key.secret)).join(''))
    const answers = await client.answers(50)
    client.end()
    expect(answers.map(answer => answer.status)).toEqual(
      targets.map(target => (target === WORKSPACE ? 200 : 404)),
    )
    expect(world.upstream.requests).toHaveLength(25)
  })

  test('malformed bytes after a valid request do not affect its response', async () => {
    const client = new RawClient(world.gateway.urls.gateway)
    client.send(`${head()}\x00\x01 broken\r\n\r\n`)
    expect((await client.untilClosed()).map(answer => answer.status)).toEqual([200, 400])
  })
})

/** Removes what may differ between two forwarded requests. */
function withoutId(request: string): string {
  return request.replace(/^x-request-id: .*$/im, '')
}

test('CONNECT matches no route', async () => {
  const answer = await exchange(
    world.gateway.urls.gateway,
    'CONNECT evil:443 HTTP/1.1\r\nHost: evil:443\r\n\r\n',
  )
  expect([answer.status, (JSON.parse(answer.body) as { code: string }).code]).toEqual([404, 'not_found'])
})

test('other methods get the same response for every workspace', async () => {
  for (const method of ['HEAD', 'OPTIONS', 'POST', 'DELETE', 'TRACE', 'PUT', 'PATCH', 'PROPFIND', 'QUERY']) {
    const answers = await Promise.all(
      ['ws_1', 'ws_2', 'ws_Z'].map(async id => {
        const client = new RawClient(world.gateway.urls.gateway)
        const fields = `Host: gw\r\nAuthorization: Bearer ${key.secret}\r\nX-Reflect: canary\r\nConnection: close`
        client.send(`${method} /api/v1/workspaces/${id} HTTP/1.1\r\n${fields}\r\n\r\n`)
        await client.untilClosed()
        return client.received.toString('latin1').replace(/^(date|x-request-id): .*$/gim, '$1: -')
      }),
    )
    expect(new Set(answers).size).toBe(1)
    expect(answers[0]).toMatch(/^HTTP\/1\.1 405 Method Not Allowed\r\n/)
    expect(answers[0]).not.toContain('canary')
  }
  expect(world.upstream.requests).toEqual([])
})
