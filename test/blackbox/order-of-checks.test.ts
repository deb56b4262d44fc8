import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { exchange, field, fingerprint, get, type RawAnswer } from '../support/raw-client.ts'
import { until } from '../support/until.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const BASE = '/api/v1/workspaces'
let world: World
let key: IssuedKey
let narrow: IssuedKey

beforeAll(async () => {
  world = await startWorld()
  key = await world.issue()
  narrow = await world.issue({ scopes: ['workspace:read'] })
})
afterAll(() => world.stop())
beforeEach(() => world.upstream.reset())

const send = (bytes: string): Promise<RawAnswer> => exchange(world.gateway.urls.gateway, bytes)
const codeOf = (answer: RawAnswer) => (JSON.parse(answer.body) as { code: string }).code

describe('a key gives access to its own workspace', () => {
  test('GET /api/v1/auth describes the key without a request to the upstream', async () => {
    const answer = await send(get('/api/v1/auth', key.secret))
    expect(answer.status).toBe(200)
    expect(JSON.parse(answer.body)).toEqual({
      workspaceId: 'ws_1',
      scopes: ['files:read', 'workspace:read'],
      keyId: key.id,
      hint: `wsk_…${key.secret.slice(-4)}`,
      expiresAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      plan: null,
    })
    expect(field(answer, 'cache-control')).toBe('no-store')
    expect(world.upstream.requests).toEqual([])
  })

  test('workspace and file requests are forwarded with the same path and limit', async () => {
    expect((await send(get(`${BASE}/ws_1`, key.secret))).status).toBe(200)
    expect((await send(get(`${BASE}/ws_1/files?limit=25`, key.secret))).status).toBe(200)
    expect(world.upstream.requests.map(request => request.split('\r\n')[0])).toEqual([
      `GET ${BASE}/ws_1 HTTP/1.1`,
      `GET ${BASE}/ws_1/files?limit=25 HTTP/1.1`,
    ])
  })
})

describe('the first failing check determines the response', () => {
  const cases: [what: string, bytes: () => string, status: number, code: string][] = [
    [
      'a malformed request before an unknown path',
      () => 'GET /nowhere HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n',
      400,
      'invalid_request',
    ],
    [
      'an unknown path before a wrong method',
      () => 'POST /nowhere HTTP/1.1\r\nHost: gw\r\n\r\n',
      404,
      'not_found',
    ],
    [
      'a wrong method before a missing key',
      () => 'POST /api/v1/auth HTTP/1.1\r\nHost: gw\r\n\r\n',
      405,
      'method_not_allowed',
    ],
    [
      'a body before a missing key',
      () => 'GET /api/v1/auth HTTP/1.1\r\nHost: gw\r\nContent-Length: 1\r\n\r\nx',
      400,
      'invalid_request',
    ],
    ['a missing key before a foreign workspace', () => get(`${BASE}/ws_2`), 401, 'key_missing'],
    [
      'two keys count as no key',
      () => get('/api/v1/auth', key.secret, `Authorization: Bearer ${key.secret}`),
      401,
      'key_missing',
    ],
    [
      'another scheme counts as no key',
      () => get('/api/v1/auth', undefined, 'Authorization: Basic abc'),
      401,
      'key_missing',
    ],
    ['an invalid key before a foreign workspace', () => get(`${BASE}/ws_2`, 'wsk_wrong'), 401, 'key_invalid'],
    [
      'a foreign workspace before a missing scope',
      () => get(`${BASE}/ws_2/files`, narrow.secret),
      404,
      'not_found',
    ],
    [
      'a foreign workspace before a wrong query',
      () => get(`${BASE}/ws_2/files?limit=x`, key.secret),
      404,
      'not_found',
    ],
    [
      'a missing scope before a wrong query',
      () => get(`${BASE}/ws_1/files?limit=x`, narrow.secret),
      403,
      'scope_missing',
    ],
    ['a wrong query', () => get(`${BASE}/ws_1/files?limit=x`, key.secret), 400, 'invalid_request'],
    [
      'a query on a route without parameters',
      () => get('/api/v1/auth?x=1', key.secret),
      400,
      'invalid_request',
    ],
  ]
  test.each(cases)('%s', async (_what, bytes, status, code) => {
    const answer = await send(bytes())
    expect([answer.status, codeOf(answer)]).toEqual([status, code])
    expect(Object.keys(JSON.parse(answer.body) as object)).toEqual(['code', 'error'])
    expect(field(answer, 'x-content-type-options')).toBe('nosniff')
    expect(field(answer, 'cache-control')).toBe('no-store')
    expect(field(answer, 'x-request-id')).toMatch(/^[A-Za-z0-9._-]{1,128}$/)
    expect(world.upstream.requests).toEqual([])
  })
})

describe('a key with allowed networks', () => {
  test('is rejected from other addresses before the workspace check; the error names the address', async () => {
    const elsewhere = await world.issue({ allowedCidrs: ['198.51.100.0/24', '2001:db8::/32'] })
    const answer = await send(get(`${BASE}/ws_other`, elsewhere.secret))
    expect([answer.status, JSON.parse(answer.body)]).toEqual([
      403,
      { code: 'address_not_allowed', error: 'The API key must not be used from 127.0.0.1' },
    ])
    expect(field(answer, 'www-authenticate')).toBeUndefined()
    expect(world.upstream.requests).toEqual([])
  })

  test('works from its networks, and X-Forwarded-For of an untrusted client changes nothing', async () => {
    const here = await world.issue({ allowedCidrs: ['127.0.0.0/8'] })
    const said = get(`${BASE}/ws_1`, here.secret).replace('\r\n\r\n', '\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n')
    expect((await send(said)).status).toBe(200)
  })
})

describe('WWW-Authenticate challenges', () => {
  test('a missing key gets a challenge, an unusable one the error invalid_token', async () => {
    expect(field(await send(get('/api/v1/auth')), 'www-authenticate')).toBe('Bearer realm="postern"')
    expect(field(await send(get('/api/v1/auth', 'junk')), 'www-authenticate')).toMatch(
      /^Bearer realm="postern", error="invalid_token", error_description="[^"]+"$/,
    )
    expect(field(await send(get(`${BASE}/ws_1/files`, narrow.secret)), 'www-authenticate')).toBe(
      'Bearer realm="postern", error="insufficient_scope", scope="files:read"',
    )
  })

  test('405 lists the allowed methods', async () => {
    const answer = await send('DELETE /api/v1/auth HTTP/1.1\r\nHost: gw\r\n\r\n')
    expect(field(answer, 'allow')).toBe('GET')
  })
})

describe('another workspace is indistinguishable from a path that does not exist', () => {
  test('same status, same headers in the same order, same body', async () => {
    const nowhere = fingerprint(await send(get('/api/v1/nowhere', key.secret)))
    const others = [
      `${BASE}/ws_2`,
      `${BASE}/ws_Z`,
      `${BASE}/ws_2/files`,
      `${BASE}/WS_1`,
      `${BASE}/ws_1%20`,
      `${BASE}/%77s_1`,
      `${BASE}/ws_1%2f..%2fws_2`,
      `${BASE}/ws_1/../ws_2`,
      `${BASE}/ws_1/%2e%2e/ws_2`,
      `${BASE}//ws_1`,
      `${BASE}/ws_1;x=1`,
      `${BASE}/ws_1#x`,
      `${BASE}/ws_1\\..\\ws_2`,
      `${BASE}/__proto__`,
      `${BASE}/*`,
      `${BASE}/ws_1%00`,
      `${BASE}/ws_1%`,
      'http://gw/api/v1/auth',
      `${BASE}/ws_1/`,
      `${BASE}/ws_1%252f..%252fws_2`,
      '/metrics',
      '/',
      '/livez',
      '/admin/v1/keys/x',
      `${BASE}/ws_1/FILES`,
      `${BASE}/ws_1.css`,
      `${BASE}/ws_1%2ffiles`,
      '*',
      `${BASE}/..;/ws_2`,
      `${BASE}/ws_%EF%BC%A1`,
    ]
    for (const target of others)
      expect([target, fingerprint(await send(get(target, key.secret)))]).toEqual([target, nowhere])
    expect(world.upstream.requests).toEqual([])
  })
})

describe('the holder of a key learns its state', () => {
  test('a revoked key is rejected with key_revoked, and never as another', async () => {
    const doomed = await world.issue()
    expect((await send(get('/api/v1/auth', doomed.secret))).status).toBe(200)
    await world.revoke(doomed.id)
    const refusal = await until('it is rejected', async () => {
      const answer = await send(get('/api/v1/auth', doomed.secret))
      return answer.status !== 200 && answer
    })
    expect(codeOf(refusal)).toBe('key_revoked')
  })

  test('a well-formed key that was never issued is invalid', async () => {
    const unissued = await mintUnissuedKey()
    expect(codeOf(await send(get('/api/v1/auth', unissued)))).toBe('key_invalid')
  })
})

/** Well formed and signed with this world's secret, but never issued. */
async function mintUnissuedKey(): Promise<string> {
  const { importSigningSecret, mintSecret } = await import('../../src/domain/key/secret.ts')
  const secret = importSigningSecret(Buffer.from(world.env['POSTERN_KEYS_SIGNING_SECRETS'] ?? '', 'base64'))
  return mintSecret('wsk_', new Uint8Array(32).fill(7), secret).reveal()
}
