import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { text as readAll } from 'node:stream/consumers'
import { beforeEach, describe, expect, test } from 'vitest'
import { eachText } from '../../src/domain/key/key-texts.ts'
import { digestKey, importSigningSecret } from '../../src/domain/key/secret.ts'
import { ADMIN_TOKEN, type RunningConsole, SIGNING_SECRET, startConsole } from '../support/console.ts'
import { isWellFormedKey } from '../support/is-well-formed-key.ts'
import { databaseDirectory, temporaryDirectory } from '../support/temporary-directory.ts'

const KEYS = '/admin/v1/workspaces/ws_1/keys'
const DAY_MS = 86_400_000
const request = { name: 'build server', scopes: ['workspace:read'] }
let nowMs: number
let running: RunningConsole

beforeEach(async () => {
  nowMs = Date.parse('2026-11-20T09:00:00Z')
  running = await startConsole({ parts: { clock: { wallMs: () => nowMs, monotonicMs: () => nowMs } } })
})
const issue = (change: object = {}) => running.send('POST', KEYS, { ...request, ...change })

describe('issuing a key', () => {
  test('returns the record, and a secret that gateways accept', async () => {
    const { status, body } = await issue({ scopes: ['workspace:read', 'files:read'] })
    expect(status).toBe(201)
    const format = {
      kind: 'signed',
      prefix: 'wsk_',
      signingKeys: [importSigningSecret(SIGNING_SECRET)],
    } as const
    expect(isWellFormedKey(body.secret, format)).toBe(true)
    expect(body.key).toEqual({
      id: expect.stringMatching(/^key_[0-9A-HJKMNP-TV-Z]{26}$/),
      workspaceId: 'ws_1',
      name: 'build server',
      scopes: ['files:read', 'workspace:read'],
      hint: `wsk_…${body.secret.slice(-4)}`,
      createdAt: '2026-11-20T09:00:00.000Z',
      createdBy: 'admin-token',
      expiresAt: '2027-02-18T09:00:00.000Z',
      ...eachText(() => null),
      revokedAt: null,
      suspendedAt: null,
      allowedCidrs: [],
      plan: null,
      rotatedFrom: null,
      replacedBy: null,
      version: 1,
      state: 'active',
      lastUsedAt: null,
    })
  })

  test('accepts an expiry in days, with fractions, or as an instant', async () => {
    const inDays = await issue({ expiresInDays: 0.5 })
    expect(inDays.body.key.expiresAt).toBe('2026-11-20T21:00:00.000Z')
    const at = await issue({ expiresAt: '2026-12-01T00:00:00+01:00' })
    expect(at.body.key.expiresAt).toBe('2026-11-30T23:00:00.000Z')
  })

  const mistakes: [string, unknown, RegExp][] = [
    ['no name', { name: undefined }, /^name must be 1 to 100 characters/],
    ['an empty name', { name: '' }, /^name must be/],
    ['a name that is a number', { name: 1 }, /^name must be/],
    ['a name of 101 characters', { name: 'n'.repeat(101) }, /^name must be/],
    [
      'a name that cannot be seen',
      { name: '\u3164\u200b' },
      /^name must be a name with at least one visible character/,
    ],
    ['a control character in the name', { name: 'a\u0001b' }, /^name must be/],
    ['no scopes', { scopes: undefined }, /^scopes must be/],
    [
      'an empty list of scopes',
      { scopes: [] },
      /^scopes must be a list of at least one of files:read, workspace:read/,
    ],
    ['an unknown scope', { scopes: ['files:write'] }, /^scopes must be/],
    ['scopes in one text', { scopes: 'files:read' }, /^scopes must be/],
    ['a scope that is a number', { scopes: [1] }, /^scopes must be/],
    ['days in text', { expiresInDays: '7' }, /^expiresInDays must be a number of days/],
    ['days that are null', { expiresInDays: null }, /^expiresInDays must be/],
    ['too few days', { expiresInDays: 0.0001 }, /^expiresInDays must be/],
    ['too many days', { expiresInDays: 367 }, /^expiresInDays must be/],
    ['an instant that has passed', { expiresAt: '2020-01-01T00:00:00Z' }, /^expiresAt must be an instant/],
    ['a date alone', { expiresAt: '2026-12-01' }, /^expiresAt must be/],
    ['both expiries', { expiresInDays: 1, expiresAt: '2026-12-01T00:00:00Z' }, /^expiresAt must be absent/],
    ['a workspace of its own', { workspaceId: 'ws_2' }, /^Unknown field workspaceId$/],
    ['a version of its own', { version: 999 }, /^Unknown field version$/],
    ['a prototype', { __proto__x: 1, constructor: { prototype: {} } }, /not JSON|Unknown field/],
  ]
  test('with a mistake is refused by the name of the field', async () => {
    for (const [what, change, text] of mistakes) {
      const { status, body } = await running.send('POST', KEYS, { ...request, ...(change as object) })
      expect({ what, status, code: body.code }).toMatchObject({ status: 400, code: 'invalid_request' })
      expect(body.error).toMatch(text)
      const field = /^(?:Unknown field )?(\w+)/.exec(body.error)?.[1]
      expect(body.field).toBe(body.error.includes('not JSON') ? undefined : field)
    }
    expect((await running.send('GET', KEYS)).body.keys).toEqual([])
  })

  test('never echoes a key that was sent as a field name', async () => {
    const { body: issued } = await issue()
    const { status, text } = await issue({ [issued.secret]: true })
    expect(status).toBe(400)
    expect(text).not.toContain(issued.secret)
  })

  test.each(['a%2Fb', 'ws%20', 'w'.repeat(129), 'ws_%C3%BC', '%01'])(
    'into a workspace called %s is refused',
    async id => {
      const { status, body } = await running.send('POST', `/admin/v1/workspaces/${id}/keys`, request)
      expect({ status, code: body.code }).toEqual({ status: 400, code: 'invalid_request' })
      expect(body.error).toMatch(/^workspaceId must be/)
    },
  )

  test.each([128, 1])('into a workspace whose name has %i characters works', async length => {
    const answer = await running.send('POST', `/admin/v1/workspaces/${'w'.repeat(length)}/keys`, request)
    expect(answer.status).toBe(201)
  })

  test.each([
    ['no JSON', '{"name":', 'application/json', 400],
    ['nothing', '', 'application/json', 400],
    ['null', 'null', 'application/json', 400],
    ['a list', '[]', 'application/json', 400],
    ['text', '"key"', 'application/json', 400],
    ['a poisoned prototype', '{"__proto__":{"a":1},"name":"a","scopes":[]}', 'application/json', 400],
    ['JSON as plain text', JSON.stringify(request), 'text/plain', 415],
    ['a form', 'name=a', 'application/x-www-form-urlencoded', 415],
    ['30,000 nested lists', '['.repeat(30_000), 'application/json', 400],
    ['30,000 nested lists that close', '['.repeat(30_000) + ']'.repeat(30_000), 'application/json', 400],
    ['more than 64 KiB', JSON.stringify({ ...request, name: 'n'.repeat(65_536) }), 'application/json', 413],
  ])('with %s as its body is refused in our own words', async (_, payload, type, status) => {
    const answer = await running.send('POST', KEYS, undefined, { payload, headers: { 'content-type': type } })
    expect(answer.status).toBe(status)
    expect(answer.body).toEqual({ code: expect.any(String), error: expect.stringMatching(/[^.]$/) })
  })

  test('generates another secret if another live key of the workspace has the same hint', async () => {
    const random = [1, 1, 2].map(byte => new Uint8Array(32).fill(byte))
    const randomBytes = (size: number) =>
      size === 32 ? (random.shift() ?? new Uint8Array(32)) : new Uint8Array(size)
    const { send } = await startConsole({ parts: { randomBytes } })
    const first = await send('POST', KEYS, request)
    const second = await send('POST', KEYS, request)
    expect([first.status, second.status]).toEqual([201, 201])
    expect(second.body.key.hint).not.toBe(first.body.key.hint)
    expect(random).toEqual([])
  })

  test('fails if every generated secret is the same', async () => {
    const { send, log } = await startConsole({ parts: { randomBytes: size => new Uint8Array(size) } })
    expect((await send('POST', KEYS, request)).status).toBe(201)
    const { status, body } = await send('POST', KEYS, request)
    expect({ status, code: body.code }).toEqual({ status: 500, code: 'internal_error' })
    expect(JSON.stringify(log)).toContain('random number generator')
  })
})

test('without randomness no key is issued or stored in part', async () => {
  let broken = false
  const randomBytes = (size: number) => {
    if (broken) throw new Error('no entropy')
    return new Uint8Array(size).fill(7)
  }
  const { send } = await startConsole({ parts: { randomBytes } })
  expect((await send('GET', KEYS)).body.keys).toEqual([])
  broken = true
  const { status, body } = await send('POST', KEYS, request, { headers: { 'x-request-id': 'no-entropy' } })
  expect({ status, code: body.code }).toEqual({ status: 500, code: 'internal_error' })
  broken = false
  expect((await send('GET', KEYS)).body.keys).toEqual([])
  expect((await send('GET', '/admin/v1/workspaces/ws_1/audit')).body.entries).toEqual([])
})

describe('the secret', () => {
  test('is in one response, and in no file, log line, metric or later response', async () => {
    const directory = temporaryDirectory()
    const file = join(directory, 'keys.db')
    const { send, log, metrics } = await startConsole({ databaseUrl: `sqlite:${file}` })
    const { body } = await send('POST', KEYS, request)
    const { secret, key } = body
    const later = [
      await send('GET', KEYS),
      await send('GET', `/admin/v1/keys/${key.id}`),
      await send('GET', `/internal/v1/keys/${digestKey(secret)}`),
      await send('GET', `/admin/v1/keys/${secret}`),
      await send('POST', `/admin/v1/keys/${key.id}/revoke`),
    ].map(answer => answer.text)
    const stored = [file, `${file}-wal`].map(name => readFileSync(name, 'latin1'))
    const everything = [...later, ...stored, JSON.stringify(log), await metrics.registry.metrics()].join('\n')
    expect(everything).toContain(key.id)
    const random = secret.slice(4, 47)
    for (const part of [secret, random, secret.slice(-11)]) expect(everything).not.toContain(part)
  })
})

describe('listing keys', () => {
  test('returns the keys of the workspace, newest first, 50 per page', async () => {
    await running.send('POST', '/admin/v1/workspaces/ws_2/keys', request)
    const ids: string[] = []
    for (let index = 0; index < 51; index++) ids.unshift((await issue()).body.key.id)
    const first = (await running.send('GET', KEYS)).body
    expect(first.keys.map((key: { id: string }) => key.id)).toEqual(ids.slice(0, 50))
    await issue({ name: 'issued between two pages' })
    const second = (await running.send('GET', `${KEYS}?cursor=${first.cursor}`)).body
    expect(second.keys.map((key: { id: string }) => key.id)).toEqual(ids.slice(50))
    expect(second).not.toHaveProperty('cursor')
  })

  test('returns the current state of each key', async () => {
    const short = await issue({ expiresInDays: 1 })
    const revoked = await issue()
    await running.send('POST', `/admin/v1/keys/${revoked.body.key.id}/revoke`)
    await issue()
    nowMs += DAY_MS
    const { body } = await running.send('GET', KEYS)
    expect(body.keys.map((key: { state: string }) => key.state)).toEqual(['active', 'revoked', 'expired'])
    const one = await running.send('GET', `/admin/v1/keys/${short.body.key.id}`)
    expect(one.body.key).toEqual(body.keys[2])
  })

  test('returns none for an empty workspace', async () => {
    expect((await running.send('GET', KEYS)).body).toEqual({ keys: [], hasMore: false })
  })

  const queries = [
    'limit=0',
    'limit=201',
    'limit=-1',
    'limit=01',
    'limit=1e2',
    'limit=',
    'limit=1&limit=2',
    'cursor=',
    'cursor=key_x',
    'cursor=%27%20OR%201=1--',
    'offset=10',
  ]
  test('with a wrong limit or cursor is refused', async () => {
    for (const query of queries) {
      const { status, body } = await running.send('GET', `${KEYS}?${query}`)
      expect({ query, status, code: body.code }).toMatchObject({ status: 400, code: 'invalid_request' })
      expect(body.error).toMatch(/^(limit|cursor) must be|^Unknown query parameter offset$/)
    }
  })

  test('with a parameter is refused where a call has none', async () => {
    const paths = [
      `/admin/v1/keys/key_01ARZ3NDEKTSV4RRFFQ69G5FAV`,
      '/admin/v1/whoami',
      `${KEYS.replace(/keys$/, 'plan')}`,
    ]
    for (const path of paths) {
      const { status, body } = await running.send('GET', `${path}?x=1`)
      expect([path, status, body]).toEqual([
        path,
        400,
        { code: 'invalid_request', error: 'Unknown query parameter x', field: 'x' },
      ])
    }
  })

  test.each(['1', '200'])('with ?limit=%s works', async limit => {
    expect((await running.send('GET', `${KEYS}?limit=${limit}`)).status).toBe(200)
  })
})

describe('revoking a key', () => {
  test('returns the time; a second request changes nothing', async () => {
    const { id } = (await issue()).body.key
    const first = await running.send('POST', `/admin/v1/keys/${id}/revoke`)
    expect(first.status).toBe(200)
    expect(first.body.key).toMatchObject({
      revokedAt: '2026-11-20T09:00:00.000Z',
      state: 'revoked',
      version: 2,
    })
    nowMs += 5000
    const again = await running.send('POST', `/admin/v1/keys/${id}/revoke`, {})
    expect(again.status).toBe(200)
    expect(again.body.key).toEqual(first.body.key)
    expect((await running.send('GET', `/admin/v1/keys/${id}`)).body.key).toEqual(first.body.key)
  })

  test('by many concurrent requests revokes once', async () => {
    const { id } = (await issue()).body.key
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => running.send('POST', `/admin/v1/keys/${id}/revoke`)),
    )
    expect(new Set(answers.map(answer => answer.status))).toEqual(new Set([200]))
    expect(new Set(answers.map(answer => answer.body.key.version))).toEqual(new Set([2]))
  })

  test('leaves an expired key unchanged', async () => {
    const { id } = (await issue({ expiresInDays: 1 })).body.key
    nowMs += DAY_MS
    const { status, body } = await running.send('POST', `/admin/v1/keys/${id}/revoke`)
    expect(status).toBe(200)
    expect(body.key).toMatchObject({ state: 'expired', revokedAt: null, version: 1 })
  })

  test('is reported as not announced without a reachable Redis', async () => {
    const { id } = (await issue()).body.key
    expect((await running.send('POST', `/admin/v1/keys/${id}/revoke`)).body.announced).toBe(false)
  })

  test('accepts no fields', async () => {
    const { id } = (await issue()).body.key
    const { status, body } = await running.send('POST', `/admin/v1/keys/${id}/revoke`, { reason: 'lost' })
    expect({ status, error: body.error }).toEqual({ status: 400, error: 'Unknown field reason' })
  })
})

describe('an unknown key', () => {
  test.each([
    ['GET', '/admin/v1/keys/key_00000000000000000000000000'],
    ['POST', '/admin/v1/keys/key_00000000000000000000000000/revoke'],
    ['GET', '/admin/v1/keys/__proto__'],
    ['GET', "/admin/v1/keys/'%20OR%201=1--"],
    ['GET', '/admin/v1/keys/%01'],
    ['GET', '/admin/v1/nothing/here'],
  ] as const)('%s %s is 404', async (method, url) => {
    const { status, body } = await running.send(method, url)
    const error = url.includes('/keys/') ? 'No such key' : expect.any(String)
    expect({ status, ...body }).toMatchObject({ status: 404, code: 'not_found', error })
  })
})

describe('a caller without the token', () => {
  const calls = [
    ['POST', KEYS],
    ['GET', KEYS],
    ['GET', '/admin/v1/keys/key_1'],
    ['POST', '/admin/v1/keys/key_1/revoke'],
    ['POST', '/admin/v1/keys/key_1/rotate'],
    ['GET', '/admin/v1/workspaces/ws_1/audit'],
    ['POST', '/admin/v1/sync'],
    ['GET', '/admin/v1/nothing/here'],
  ] as const
  const tokens = [
    ['nothing', ''],
    ['another scheme', `Basic ${ADMIN_TOKEN}`],
    ['another token', 'Bearer admin-token-of-the-testz'],
    ['the beginning of the token', 'Bearer admin-token'],
    ['the token and more', `Bearer ${ADMIN_TOKEN}x`],
    ['the key service’s token', 'Bearer key-service-token-of-the-tests'],
  ] as const

  test.each(tokens)('with %s is answered 401 at every call', async (_, authorization) => {
    for (const [method, url] of calls) {
      const { status, headers, body } = await running.send(method, url, undefined, {
        headers: { authorization },
      })
      expect({ method, url, status, code: body.code }).toMatchObject({ status: 401, code: 'unauthenticated' })
      expect(headers['www-authenticate']).toMatch(/^Bearer/)
    }
  })

  test('is rejected always if no token is configured', async () => {
    const { send } = await startConsole({ adminToken: null })
    for (const authorization of ['', 'Bearer ', 'Bearer undefined', `Bearer ${ADMIN_TOKEN}`]) {
      expect((await send('GET', KEYS, undefined, { headers: { authorization } })).status).toBe(401)
    }
  })
})

describe('every response', () => {
  test.each([
    ['GET', KEYS, 200],
    ['GET', '/nothing', 404],
    ['POST', KEYS, 400],
    ['GET', '/%zz', 400],
    ['GET', '/admin/v1/keys/%zz', 400],
    ['GET', `/admin/v1/keys/${'x'.repeat(600)}`, 400],
  ] as const)('%s %s is not cached, not sniffed, and carries a request id', async (method, url, status) => {
    const answer = await running.send(method, url)
    expect(answer.status).toBe(status)
    expect(answer.headers['cache-control']).toBe('no-store')
    expect(answer.headers['x-content-type-options']).toBe('nosniff')
    expect(answer.headers['x-request-id']).toMatch(/^[0-9a-f]{32}$/)
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8')
  })

  test('keeps the client’s request id only if it is well formed and holds no key or token', async () => {
    const idOf = async (sent: string) =>
      (await running.send('GET', KEYS, undefined, { headers: { 'x-request-id': sent } })).headers[
        'x-request-id'
      ]
    expect(await idOf('abc-1.2_3')).toBe('abc-1.2_3')
    for (const sent of ['a b', 'x'.repeat(129), '<img>']) expect(await idOf(sent)).toMatch(/^[0-9a-f]{32}$/)
    const { secret } = (await issue()).body
    const fields = { name: 'ci', permissions: ['keys:read'], expiresInDays: 1 }
    const token = (await running.send('POST', '/admin/v1/tokens', fields)).body.secret
    // It goes to the log and the audit log, which must not hold a key or token.
    for (const sent of [secret, token, ADMIN_TOKEN, `a.${secret}`, `a.${ADMIN_TOKEN}`]) {
      expect(await idOf(sent)).toMatch(/^[0-9a-f]{32}$/)
    }
  })

  test.each([
    ['PUT', KEYS, 'POST, GET, HEAD'],
    ['DELETE', '/admin/v1/keys/key_1', 'PATCH, GET, HEAD'],
    ['HEAD', '/admin/v1/keys/key_1/revoke', 'POST'],
    ['GET', '/admin/v1/keys/key_1/revoke', 'POST'],
    ['PATCH', '/admin/v1/keys/key_1/revoke', 'POST'],
  ] as const)('to %s %s is 405 and says what is allowed', async (method, url, allow) => {
    const { status, headers } = await running.send('GET', url, undefined, { method })
    expect({ status, allow: headers['allow'] }).toEqual({ status: 405, allow })
  })

  test('is counted and logged once, with operation, status and key', async () => {
    const { id } = (await issue()).body.key
    await running.send('GET', '/admin/v1/keys/key_typed_wrong')
    await running.send('POST', `/admin/v1/keys/${id}/revoke`)
    const lines = running.log.filter(line => line['msg'] === 'admin request')
    expect(lines).toMatchObject([
      { operation: 'issue', status: 201, keyId: id },
      { operation: 'get', status: 404, keyId: null },
      { operation: 'revoke', status: 200, keyId: id },
    ])
    const text = await running.metrics.registry.metrics()
    expect(text).toContain('postern_admin_requests_total{operation="get",code="404"} 1')
    expect(text).toContain('postern_key_operations_total{operation="issue",outcome="ok"} 1')
    expect(text).toContain('postern_key_operations_total{operation="revoke",outcome="unchanged"} 0')
  })

  test('is counted from zero, so that a rate alert fires on the first', async () => {
    const text = await running.metrics.registry.metrics()
    for (const operation of ['issue', 'rotate', 'revoke']) {
      for (const outcome of ['ok', 'replayed', 'invalid', 'not_found', 'conflict', 'failed']) {
        expect(text).toContain(
          `postern_key_operations_total{operation="${operation}",outcome="${outcome}"} 0`,
        )
      }
    }
    for (const operation of ['issue', 'list', 'get', 'rotate', 'revoke', 'audit', 'sync']) {
      expect(text).toContain(`postern_admin_requests_total{operation="${operation}",code="500"} 0`)
    }
    const { id } = (await issue()).body.key
    await running.send('POST', `/admin/v1/keys/${id}/rotate`)
    await running.send('POST', `/admin/v1/keys/${id}/rotate`)
    const later = await running.metrics.registry.metrics()
    expect(later).toContain('postern_key_operations_total{operation="rotate",outcome="ok"} 1')
    expect(later).toContain('postern_key_operations_total{operation="rotate",outcome="conflict"} 1')
  })
})

test('an internal error is 500 without detail, and logged with its cause', async () => {
  await running.console.health()
  const file = join(databaseDirectory(), 'keys.db')
  const { send, log, health } = await startConsole({ databaseUrl: `sqlite:${file}` })
  const { DatabaseSync } = await import('node:sqlite')
  const other = new DatabaseSync(file)
  other.exec('DROP TABLE keys; DROP TABLE outbox')
  other.close()
  const { status, body, text } = await send('GET', KEYS)
  expect({ status, code: body.code }).toEqual({ status: 500, code: 'internal_error' })
  expect(text).not.toMatch(/sqlite|table/i)
  expect(
    log.some(line => line['msg'] === 'request failed' && JSON.stringify(line).includes('no such table')),
  ).toBe(true)
  expect(await health()).toMatchObject({ database: 'failed' })
})

describe('over a socket', () => {
  const authorization = `Authorization: Bearer ${ADMIN_TOKEN}\r\n`
  /** What a server answers to exactly these bytes, to the end of the connection. */
  const send = async (bytes: string) => {
    await running.app.listen({ host: '127.0.0.1', port: 0 })
    const address = running.app.server.address()
    if (address === null || typeof address === 'string') throw new Error('A TCP server has a port')
    const socket = connect(address.port, '127.0.0.1')
    socket.write(bytes)
    return readAll(socket)
  }
  const get = (path: string, headers: string) =>
    send(`GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${headers}\r\n`)

  test('bytes that are not HTTP get a JSON error, and the connection closes', async () => {
    const answer = await send('BREW /pot HTTP/1.1\r\n\r\n')
    expect(answer).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/)
    expect(answer).toContain('"code":"invalid_request"')
  })

  test('oversized headers get a JSON error', async () => {
    const answer = await get(KEYS, `X-Long: ${'x'.repeat(20_000)}\r\n`)
    expect(answer).toMatch(/^HTTP\/1\.1 431 /)
    expect(answer).toContain('"code":"request_too_large"')
  })

  test('a request with the token is admitted', async () => {
    expect(await get(KEYS, authorization)).toMatch(/^HTTP\/1\.1 200 /)
  })

  test('two Authorization headers are rejected, although the first is valid', async () => {
    expect(await get(KEYS, authorization + authorization)).toMatch(/^HTTP\/1\.1 401 /)
    expect((await running.send('GET', KEYS)).status).toBe(200)
  })

  test.each(['..', '%2e%2e', '.', '%2E'])('a workspace named %s is rejected', async id => {
    expect(await get(`/admin/v1/workspaces/${id}/keys`, authorization)).toMatch(/^HTTP\/1\.1 400 /)
  })
})
