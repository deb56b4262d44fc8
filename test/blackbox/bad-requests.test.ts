import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { exchange, get, type RawAnswer, RawClient } from '../support/raw-client.ts'
import { startWorld, type World } from '../support/world.ts'

let world: World
beforeAll(async () => {
  const check = { POSTERN_GATEWAY_CHECK_HOST: '127.0.0.1', POSTERN_GATEWAY_CHECK_PORT: '0' }
  // Envoy takes the status of a refusal as it is.
  world = await startWorld({ ...check, POSTERN_GATEWAY_CHECK_PROXY: 'envoy' })
})
afterAll(() => world.stop())

const listeners = () => ({
  gateway: world.gateway.urls.gateway,
  check: world.gateway.urls.check,
  console: world.console.urls.console,
  internal: world.console.urls.internal,
  ops: world.gateway.urls.ops,
  'ops of the console': world.console.urls.ops,
})

/** The text of a 400 in our form, which names a cause and repeats nothing that the client sent. */
function causeOf({ status, body }: RawAnswer): string {
  const { code, error, ...more } = JSON.parse(body) as { code: string; error: string }
  expect([status, code, more]).toEqual([400, 'invalid_request', {}])
  expect(error).not.toMatch(/malformed|canary|\.$/i)
  return error
}

const HOST = 'Host: gw\r\n'
const head = (...lines: string[]) => ['GET /livez HTTP/1.1', ...lines, '', ''].join('\r\n')
const BAD: readonly (readonly [name: string, bytes: string | Buffer, cause: RegExp])[] = [
  ['two Host fields', head('Host: gw', 'Host: canary'), /two Host fields/],
  ['two Host fields of one name', head('Host: gw', 'hOST: gw'), /two Host fields/],
  ['no Host field', head(), /Host field is missing/],
  ['an unknown method', `CANARY / HTTP/1.1\r\n${HOST}\r\n`, /unknown method/],
  ['a method in small letters', `get / HTTP/1.1\r\n${HOST}\r\n`, /unknown method/],
  ['a TLS handshake', Buffer.from([0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0xfc]), /speaks plain HTTP.* TLS/],
  ['the PROXY protocol', `PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n${head('Host: gw')}`, /PROXY protocol/],
  ['its version 2', '\r\n\r\n\0\r\nQUIT\n\x20\0\0\0', /PROXY protocol/],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', /HTTP\/2 is not supported/],
  ['HTTP/2.0', `GET / HTTP/2.0\r\n${HOST}\r\n`, /version must be 1\.0 or 1\.1/],
  ['HTTP/9.9', `GET / HTTP/9.9\r\n${HOST}\r\n`, /version must be 1\.0 or 1\.1/],
  ['HTTP/0.9', 'GET /\r\n\r\n', /version must be 1\.0 or 1\.1/],
  ['a version in small letters', `GET / http/1.1\r\n${HOST}\r\n`, /request line must be/],
  ['a space in the target', `GET /a canary HTTP/1.1\r\n${HOST}\r\n`, /request line must be/],
  ['two spaces in the request line', `GET  /livez HTTP/1.1\r\n${HOST}\r\n`, /more than one space/],
  [
    'a control character in the target',
    `GET /\x01 HTTP/1.1\r\n${HOST}\r\n`,
    /request target has a character/,
  ],
  [
    'a letter beyond ASCII in the target',
    `GET /\xe9 HTTP/1.1\r\n${HOST}\r\n`,
    /request target has a character/,
  ],
  ['line feeds alone', 'GET / HTTP/1.1\nHost: gw\n\n', /CRLF/],
  ['a line feed alone after a field', 'GET / HTTP/1.1\r\nHost: gw\nX: y\r\n\r\n', /CRLF/],
  ['a space before a colon', head('Host: gw', 'X-Canary : b'), /header field .*space before its colon/],
  ['a space in the name of a field', head('Host: gw', 'X Canary: b'), /header field/],
  ['NUL in a field', head('Host: gw', 'X: canary\0'), /header field/],
  ['a folded field', head('Host: gw', 'X: a', ' canary'), /header field/],
  ['two lengths', head('Host: gw', 'Content-Length: 1', 'Content-Length: 1'), /Content-Length field/],
  ['a length that is no number', head('Host: gw', 'Content-Length: 1x'), /Content-Length field/],
  [
    'a length and a coding',
    head('Host: gw', 'Content-Length: 1', 'Transfer-Encoding: chunked'),
    /Transfer-Encoding/,
  ],
  ['an unknown coding', head('Host: gw', 'Transfer-Encoding: canary'), /Transfer-Encoding/],
]

describe('a bad request is answered with its cause, at every listener', () => {
  test.each(BAD)('%s', async (_, bytes, cause) => {
    for (const [name, url] of Object.entries(listeners())) {
      expect([name, causeOf(await exchange(url, bytes))]).toEqual([name, expect.stringMatching(cause)])
    }
  })

  test('a request that its client did not complete', async () => {
    for (const [name, url] of Object.entries(listeners())) {
      const client = new RawClient(url)
      client.socket.end('GET / HTTP/1.1\r\nHost: canary')
      const [answer] = await client.untilClosed()
      if (answer === undefined) throw new Error(`${name} did not answer`)
      expect([name, causeOf(answer)]).toEqual([name, expect.stringContaining('ended before the request')])
    }
  })

  test('another expectation than 100-continue is 417, which names the field', async () => {
    for (const [name, url] of Object.entries(listeners())) {
      const { status, body } = await exchange(url, head('Host: gw', 'Expect: canary'))
      expect([name, status, JSON.parse(body)]).toEqual([
        name,
        417,
        { code: 'invalid_request', error: 'The Expect field is not supported, other than 100-continue' },
      ])
    }
  })
})

describe('the gateway names what its own checks reject', () => {
  const PATH = '/api/v1/workspaces/ws_1'
  test.each<[string, string, RegExp]>([
    [
      'a Host that is none',
      get(PATH, undefined).replace(/Host: [^\r]*/, 'Host: a/canary'),
      /Host field is not/,
    ],
    ['HTTP/1.0 without a Host', `GET ${PATH} HTTP/1.0\r\n\r\n`, /Host field is missing/],
    [
      'a coding in HTTP/1.0',
      `GET ${PATH} HTTP/1.0\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      /Transfer-Encoding/,
    ],
    ['a body', get(PATH, undefined, 'Content-Length: 1'), /GET request must not have a body/],
  ])('%s', async (_, bytes, cause) => {
    expect(causeOf(await exchange(world.gateway.urls.gateway, bytes))).toMatch(cause)
  })
})

describe('console and key service name what is wrong with a path or a body', () => {
  const token = () => `Authorization: Bearer ${world.cliEnv['POSTERN_ADMIN_TOKEN']}`
  const post = (body: string, ...lines: string[]) =>
    [
      'POST /admin/v1/tokens HTTP/1.1',
      'Host: gw',
      token(),
      'Content-Type: application/json',
      ...lines,
      '',
      body,
    ].join('\r\n')
  test.each<[string, () => string, RegExp]>([
    ['a body that is no JSON', () => post('{canary', 'Content-Length: 7'), /body is not JSON/],
    ['a body with a forbidden name', () => post('{"__proto__":1}', 'Content-Length: 15'), /body/],
    [
      'a chunk without a size',
      () => post('canary\r\n', 'Transfer-Encoding: chunked'),
      /chunk .* invalid size/,
    ],
    [
      'a chunk of another size',
      () => post('1\r\n{}\r\n0\r\n\r\n', 'Transfer-Encoding: chunked'),
      /chunk .* does not end where/,
    ],
    [
      'a percent sign that begins nothing',
      () => get('/admin/v1/keys/%zz', undefined, token()),
      /percent sign/,
    ],
  ])('%s', async (_, bytes, cause) => {
    expect(causeOf(await exchange(world.console.urls.console, bytes()))).toMatch(cause)
  })

  test.each(['internal', 'ops', 'ops of the console'] as const)('a path at %s', async name => {
    expect(causeOf(await exchange(listeners()[name], get('/%zz', undefined)))).toMatch(/percent sign/)
  })
})

describe('a health check of a load balancer, at the ops port', () => {
  test.each([
    ['of HTTP/1.0 without a Host', 'GET /readyz HTTP/1.0\r\n\r\n'],
    ['of HTTP/1.0 that keeps its connection', 'GET /readyz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n'],
    ['of HTTP/1.1', `GET /readyz HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`],
    [
      'with an address as its Host',
      'GET /readyz HTTP/1.1\r\nHost: 10.0.0.7:9090\r\nConnection: close\r\n\r\n',
    ],
    [
      'with the head of an Amazon checker',
      `GET /readyz HTTP/1.1\r\n${HOST}User-Agent: ELB-HealthChecker/2.0\r\nAccept-Encoding: gzip, compressed\r\nConnection: close\r\n\r\n`,
    ],
  ])('%s is 200', async (_, bytes) => {
    for (const name of ['ops', 'ops of the console'] as const) {
      expect([name, (await exchange(listeners()[name], bytes)).status]).toEqual([name, 200])
    }
  })

  test('of HTTP/1.0 that does not keep its connection ends it', async () => {
    const client = new RawClient(world.gateway.urls.ops)
    client.send('GET /readyz HTTP/1.0\r\n\r\n')
    expect((await client.untilClosed()).map(({ status }) => status)).toEqual([200])
    const ofHead = new RawClient(world.gateway.urls.ops)
    ofHead.send('HEAD /readyz HTTP/1.0\r\n\r\n')
    await ofHead.untilClosed()
    expect(ofHead.received.toString('latin1')).toMatch(/^HTTP\/1\.1 200 OK\r\n[^{]*\r\n\r\n$/)
  })

  test('at the public port, where a balancer can ask no other, is 401 over HTTP/1.0 with a Host', async () => {
    const bytes = `GET /api/v1/auth HTTP/1.0\r\n${HOST}\r\n`
    expect((await exchange(world.gateway.urls.gateway, bytes)).status).toBe(401)
  })

  test('of HTTP/0.9 names the version, and HAProxy’s default names the path', async () => {
    expect(causeOf(await exchange(world.gateway.urls.ops, 'GET /\r\n\r\n'))).toContain('HTTP version')
    const { status, body } = await exchange(world.gateway.urls.ops, 'OPTIONS / HTTP/1.0\r\n\r\n')
    expect([status, JSON.parse(body).error]).toEqual([404, 'This port serves /livez, /readyz and /metrics'])
  })

  test('has the code of an unknown path, so that the command line does not take the ops port for a console without the key', async () => {
    const { body } = await exchange(world.gateway.urls.ops, `GET /admin/v1/keys HTTP/1.1\r\n${HOST}\r\n`)
    expect(JSON.parse(body).code).toBe('unknown_path')
  })
})
