import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { fileWith } from '../config/examples.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { breaksOff, keyJson, refuses, ScriptedAdmin, says, TOKEN } from '../support/scripted-admin.ts'

const SECRET = 'wsk_SecretOfATestThatIsShownOnceAndNowhereElse0123456789abc'
const ID = 'key_01JD0000000000000000000000'
const OTHER_ID = 'key_01JD0000000000000000000001'
const ISSUE = ['keys', 'issue', '--workspace', 'ws_1', '--scope', 'files:read']
const issued = { key: keyJson(), secret: SECRET }

let admin: ScriptedAdmin
beforeAll(async () => {
  admin = await ScriptedAdmin.start()
})
afterAll(() => admin.stop())
beforeEach(() => admin.answers(says(200, { keys: [] })))

/** Framed well, as by a proxy that buffers. */
const cutShort = (_: unknown, response: import('node:http').ServerResponse) =>
  void response.writeHead(200, { 'content-type': 'application/json' }).end('{"keys":[{"id"')

const postern = (...args: string[]) => runPosternHere(args, admin.env)

test('keys show of a revoked key says when it was revoked, and no expiry', async () => {
  const key = keyJson({ state: 'revoked', revokedAt: '2026-11-20T00:00:00.000Z' })
  admin.answers(says(200, { key }))
  const { code, stdout } = await postern('keys', 'show', ID)
  expect([code, /^Revoked +2026-11-20/m.test(stdout), stdout.includes('Expires')]).toEqual([0, true, false])
})

describe('with --json an error is JSON on standard error', () => {
  test.each([
    [
      'of the admin API, with its code',
      ['keys', 'show', ID, '--json'],
      refuses(404, 'not_found', 'No such key'),
      65,
      'not_found',
    ],
    ['of the command line', ['keys', 'show', '--json'], null, 64, 'usage'],
    ['of an argument', ['keys', 'show', 'key_x', '--json'], null, 64, 'usage'],
  ] as const)('%s', async (_, words, answer, exitCode, code) => {
    if (answer !== null) admin.answers(answer)
    const { code: exit, stdout, stderr } = await postern(...words)
    expect([exit, stdout, JSON.parse(stderr)]).toEqual([
      exitCode,
      '',
      { error: expect.stringMatching(/\w/), code },
    ])
  })
})

describe('issue', () => {
  test('prints the secret alone on standard output, and everything about it on standard error', async () => {
    admin.answers(says(201, issued))
    const exit = await postern(...ISSUE)
    expect(exit).toMatchObject({ code: 0, stdout: SECRET })
    expect(exit.stderr).toContain(`${ID} (wsk_…x7Qf, billing importer) for workspace ws_1`)
    expect(exit.stderr).toContain('shown only once')
    expect(exit.stderr).not.toContain(SECRET)
  })

  test('sends one request with the given values and the admin token', async () => {
    admin.answers(says(201, issued))
    const words = [
      '--scope',
      'workspace:read,files:read',
      '--name',
      'billing importer',
      '--expires-in',
      '12h',
    ]
    await postern(...ISSUE, ...words)
    const [request, ...more] = admin.requests
    expect(more).toEqual([])
    expect(request).toMatchObject({
      method: 'POST',
      path: '/admin/v1/workspaces/ws_1/keys',
      body: { name: 'billing importer', scopes: ['files:read', 'workspace:read'], expiresInDays: 0.5 },
    })
    expect(request?.headers.authorization).toBe(`Bearer ${TOKEN}`)
    expect(request?.headers['idempotency-key']).toMatch(/^[0-9a-f-]{36}$/)
  })

  test('by default leaves the expiry to the console, and names the key after the time', async () => {
    admin.answers(says(201, issued))
    await postern(...ISSUE)
    expect(admin.requests[0]?.body).toEqual({
      name: expect.stringMatching(/^cli \d{4}-\d\d-\d\d \d\d:\d\d$/),
      scopes: ['files:read'],
    })
  })

  test('--json prints the response of the admin API, and nothing else', async () => {
    admin.answers(says(201, { ...issued, aFieldOfTomorrow: 1 }))
    const exit = await postern(...ISSUE, '--json')
    expect(JSON.parse(exit.stdout)).toEqual({ ...issued, aFieldOfTomorrow: 1 })
    expect([exit.code, exit.stderr]).toEqual([0, ''])
  })

  test('repeats the same request once if the connection breaks', async () => {
    admin.answers(breaksOff, says(201, issued))
    expect(await postern(...ISSUE)).toMatchObject({ code: 0, stdout: SECRET })
    const keys = admin.requests.map(({ headers }) => headers['idempotency-key'])
    expect(keys).toHaveLength(2)
    expect(new Set(keys).size).toBe(1)
  })

  test('says that the secret is lost if the response to the repeated request has none, and how to get another', async () => {
    admin.answers(breaksOff, says(201, { ...issued, secret: null }))
    const exit = await postern(...ISSUE)
    expect([exit.code, exit.stdout]).toEqual([1, ''])
    expect(exit.stderr).toContain(`before the secret of ${ID} arrived`)
    expect(exit.stderr).toContain(`postern keys rotate ${ID} --overlap 0s`)
  })

  test('does not repeat it twice, and says that a key may have been issued', async () => {
    admin.answers(breaksOff)
    const exit = await postern(...ISSUE)
    expect([exit.code, exit.stdout, admin.requests.length]).toEqual([69, '', 2])
    expect(exit.stderr).toContain('postern keys list --workspace ws_1')
  })
})

describe('list', () => {
  const at = (days: number) => new Date(Date.now() + days * 86_400_000 + 60_000).toISOString()

  test('shows one line for each key', async () => {
    admin.answers(
      says(200, {
        keys: [
          keyJson({ expiresAt: at(89), lastUsedAt: at(-3) }),
          keyJson({ id: OTHER_ID, name: 'old', state: 'revoked', scopes: ['files:read'] }),
        ],
      }),
    )
    const exit = await postern('keys', 'list', '--workspace', 'ws_1')
    const [head, first, second, ...more] = exit.stdout.split('\n')
    expect(more).toEqual([])
    expect(head).toMatch(/^ID +HINT +NAME +SCOPES +STATE +CREATED +EXPIRES +EXPIRES \(UTC\) +LAST USED$/)
    expect(first).toMatch(
      /^key_\w{26} {2}wsk_…x7Qf {2}billing importer {2}files:read workspace:read {2}active +2026-11-01 {2}in 89 days {2}\d{4}-\d\d-\d\d \d\d:\d\d +3 days ago$/,
    )
    expect(second).toMatch(/ old +files:read +revoked +2026-11-01 +- +- +Never used$/)
    expect([exit.code, exit.stderr]).toEqual([0, ''])
  })

  test('--limit prints the first keys, and asks for no page that it does not need', async () => {
    admin.answers(says(200, { keys: [keyJson(), keyJson({ id: OTHER_ID })], cursor: OTHER_ID }))
    const { code, stdout } = await postern('keys', 'list', '--workspace', 'ws_1', '--limit', '1', '-q')
    expect([code, stdout, admin.requests.length]).toEqual([0, ID, 1])
  })

  test('prints all pages, also as JSON', async () => {
    const pages = () =>
      admin.answers(
        says(200, { keys: [keyJson()], cursor: ID }),
        says(200, { keys: [keyJson({ id: OTHER_ID })] }),
      )
    pages()
    const shown = await postern('keys', 'list', '--workspace', 'ws_1')
    expect(shown.stdout.match(/^key_\w+/gm)).toEqual([ID, OTHER_ID])
    pages()
    const exit = await postern('keys', 'list', '--workspace', 'ws_1', '--json')
    expect(JSON.parse(exit.stdout)).toEqual({ keys: [keyJson(), keyJson({ id: OTHER_ID })] })
    expect(admin.requests.map(({ path }) => path)).toEqual([
      '/admin/v1/keys?workspaceId=ws_1&limit=200',
      `/admin/v1/keys?workspaceId=ws_1&limit=200&cursor=${ID}`,
    ])
  })

  test('prints one object a line as NDJSON, and ids alone with -q', async () => {
    const keys = [keyJson(), keyJson({ id: OTHER_ID, aFieldOfTomorrow: 1 })]
    admin.answers(says(200, { keys }))
    const lines = await postern('keys', 'list', '--workspace', 'ws_1', '-o', 'ndjson')
    expect(lines.stdout.split('\n').map(line => JSON.parse(line))).toEqual(keys)
    expect((await postern('keys', 'list', '--workspace', 'ws_1', '-q')).stdout).toBe(`${ID}\n${OTHER_ID}`)
    const json = await postern('keys', 'list', '--workspace', 'ws_1', '-o', 'json')
    expect(JSON.parse(json.stdout)).toEqual({ keys })
  })

  test('fits the width that COLUMNS names, where there is no terminal', async () => {
    admin.answers(says(200, { keys: [keyJson({ name: 'n'.repeat(100) })] }))
    const list = ['keys', 'list', '--workspace', 'ws_1']
    const narrow = await runPosternHere(list, { ...admin.env, COLUMNS: '80' })
    for (const line of narrow.stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80)
    const wide = await runPosternHere([...list, '-o', 'wide'], { ...admin.env, COLUMNS: '80' })
    expect(wide.stdout).toContain('n'.repeat(100))
  })

  test('fails if the console repeats a cursor', async () => {
    admin.answers(says(200, { keys: [], cursor: ID }))
    expect((await postern('keys', 'list', '--workspace', 'ws_1')).code).toBe(69)
  })

  test('prints fields that this version does not know as JSON', async () => {
    admin.answers(says(200, { keys: [keyJson({ aFieldOfTomorrow: 1 })] }))
    const exit = await postern('keys', 'list', '--workspace', 'ws_1', '--json')
    expect(JSON.parse(exit.stdout)).toEqual({ keys: [keyJson({ aFieldOfTomorrow: 1 })] })
  })

  test('reports an empty list on standard error', async () => {
    const exit = await postern('keys', 'list', '--workspace', 'ws_1')
    expect(exit).toEqual({ code: 0, stdout: '', stderr: 'Workspace ws_1 has no keys.\n' })
  })

  test('prints no control characters from the name of a key', async () => {
    admin.answers(says(200, { keys: [keyJson({ name: 'a\x1b[2J\x07b' })] }))
    const exit = await postern('keys', 'list', '--workspace', 'ws_1')
    expect(exit.stdout).not.toMatch(/[\x07\x1b]/)
  })
})

describe('rotate', () => {
  const replaced = keyJson({ expiresAt: '2999-01-01T00:00:00.000Z', state: 'retiring' })
  const progress = { announced: true, gateways: null }
  const rotated = { key: keyJson({ id: OTHER_ID }), secret: SECRET, replaced, ...progress }

  test('prints the new secret alone on standard output, and when the old key stops working', async () => {
    admin.answers(says(201, rotated))
    const exit = await postern('keys', 'rotate', ID, '--overlap', '2h', '--expires-in', '36h')
    expect(exit).toMatchObject({ code: 0, stdout: SECRET })
    expect(exit.stderr).toContain(
      `replaces ${ID} (wsk_…x7Qf, billing importer), which works until 2999-01-01`,
    )
    expect(admin.requests).toMatchObject([
      { path: `/admin/v1/keys/${ID}/rotate?wait=1`, body: { overlapSeconds: 7200, expiresInDays: 1.5 } },
    ])
    expect(admin.requests[0]?.headers['idempotency-key']).toBeDefined()
  })

  test('by default leaves overlap and expiry to the console; an overlap of 0 is sent', async () => {
    admin.answers(says(201, rotated))
    await postern('keys', 'rotate', ID)
    await postern('keys', 'rotate', ID, '--overlap', '0')
    expect(admin.requests.map(({ body }) => body)).toEqual([{}, { overlapSeconds: 0 }])
  })

  test('without an overlap says that the old key is revoked, and which gateways have confirmed it', async () => {
    const old = keyJson({ state: 'revoked', revokedAt: '2026-11-20T00:00:00.000Z' })
    const gateways = { known: 2, confirmed: 2, verifying: 0, silent: [] }
    admin.answers(says(201, { ...rotated, replaced: old, announced: false, gateways }))
    const exit = await postern('keys', 'rotate', ID, '--overlap', '0')
    expect(exit).toMatchObject({ code: 0, stdout: SECRET })
    expect(exit.stderr).toContain(`It replaces ${ID} (wsk_…x7Qf, billing importer), which is revoked.`)
    const [issued, , saved, announced, confirmed] = exit.stderr.split('\n')
    expect(issued).toMatch(/^Issued key_/)
    expect(saved).toBe('Saved at 2026-11-20 00:00 UTC.')
    expect(announced).toMatch(/^Not announced yet. The console cannot reach Redis/)
    expect(confirmed).toBe('Confirmed by 2 of 2 gateways.')
  })

  test('fails with the console’s message if the key is not active', async () => {
    admin.answers(refuses(409, 'conflict', 'Only an active key can be rotated'))
    const exit = await postern('keys', 'rotate', ID)
    expect([exit.code, exit.stdout]).toEqual([65, ''])
    expect(exit.stderr).toContain('refused: Only an active key can be rotated (409 conflict)')
  })

  test('names the new key if its secret was lost', async () => {
    admin.answers(breaksOff, says(201, { ...rotated, secret: null }))
    const exit = await postern('keys', 'rotate', ID, '--json')
    expect(exit.code).toBe(1)
    expect(JSON.parse(exit.stdout)).toEqual({ ...rotated, secret: null })
    expect(exit.stderr).toContain(`postern keys rotate ${OTHER_ID} --overlap 0s`)
  })
})

describe('revoke', () => {
  const revoked = {
    key: keyJson({ state: 'revoked', revokedAt: '2026-11-20T00:00:00.000Z' }),
    committedAt: '2026-11-20T00:00:00.000Z',
    announced: true,
    gateways: null,
  }

  test('asks nothing without a terminal: a script has named the key', async () => {
    admin.answers(says(200, revoked))
    const exit = await postern('keys', 'revoke', ID)
    expect(exit).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining(`Revoked ${ID}`) })
    expect(admin.requests.map(({ method }) => method)).toEqual(['POST'])
  })

  test.each([
    [{ known: 3, confirmed: 3, verifying: 0, silent: [] }, 'Confirmed by 3 of 3 gateways.'],
    [
      { known: 1, confirmed: 0, verifying: 1, silent: [] },
      'Confirmed by 0 of 1 gateway; 1 is disconnected and checks each key with the console before accepting it.',
    ],
    [
      { known: 0, confirmed: 0, verifying: 0, silent: [] },
      'No gateway has reported to this console within the last minute, so none can confirm the change.',
    ],
    [
      {
        known: 4,
        confirmed: 1,
        verifying: 2,
        silent: [{ name: 'pod-7', lastSeenAt: '2026-11-20T00:00:00.000Z' }],
      },
      'Confirmed by 1 of 4 gateways; 2 are disconnected and check each key with the console before accepting it; no confirmation within one second from pod-7.',
    ],
  ])('names the gateways that have confirmed it: %j', async (gateways, sentence) => {
    admin.answers(says(200, { ...revoked, gateways }))
    const { code, stdout } = await postern('keys', 'revoke', ID, '--yes')
    expect({ code, last: stdout.split('\n').at(-1) }).toEqual({ code: 0, last: sentence })
  })

  test('with --yes prints which key was revoked', async () => {
    admin.answers(says(200, revoked))
    const exit = await postern('keys', 'revoke', ID, '--yes')
    expect(exit).toEqual({
      code: 0,
      stdout: `Revoked ${ID} (wsk_…x7Qf, billing importer) of workspace ws_1.\nSaved and announced at 2026-11-20 00:00 UTC.`,
      stderr: '',
    })
    expect(admin.requests.map(({ method, path }) => `${method} ${path}`)).toEqual([
      `POST /admin/v1/keys/${ID}/revoke?wait=1`,
    ])
  })

  test('says on one stream that the change is saved but not announced, if Redis is down', async () => {
    const gateways = { known: 2, confirmed: 0, verifying: 2, silent: [] }
    admin.answers(says(200, { ...revoked, announced: false, gateways }))
    const exit = await postern('keys', 'revoke', ID, '--yes')
    expect([exit.code, exit.stderr]).toEqual([0, ''])
    expect(exit.stdout.split('\n')).toEqual([
      `Revoked ${ID} (wsk_…x7Qf, billing importer) of workspace ws_1.`,
      'Saved at 2026-11-20 00:00 UTC.',
      'Not announced yet. The console cannot reach Redis and keeps retrying. Disconnected gateways verify each key with the console before they accept it.',
      'Confirmed by 0 of 2 gateways; 2 are disconnected and check each key with the console before accepting it.',
    ])
  })

  test('--json prints the response, and says on standard error that it is not announced', async () => {
    admin.answers(says(200, { ...revoked, announced: false }))
    const exit = await postern('keys', 'revoke', ID, '--yes', '--json')
    expect(JSON.parse(exit.stdout)).toEqual({ ...revoked, announced: false })
    const warning = expect.stringMatching(/^Not announced yet\. /)
    expect([exit.code, JSON.parse(exit.stderr)]).toEqual([0, { warning, code: 'not_announced' }])
  })

  test('says that an expired key needs no revocation', async () => {
    admin.answers(says(200, { ...revoked, key: keyJson({ state: 'expired' }), committedAt: null }))
    expect((await postern('keys', 'revoke', ID, '--yes')).stdout).toMatch(
      /^Nothing to revoke: .* had expired\.$/,
    )
  })
})

describe('sync', () => {
  const pages = () =>
    admin.answers(
      says(200, { synced: 40, total: 100, cursor: 'a' }),
      says(200, { synced: 40, total: 100, cursor: 'b' }),
      says(200, { synced: 20, total: 100 }),
    )

  test('writes all pages, and reports progress line by line in a log', async () => {
    pages()
    const exit = await postern('keys', 'sync')
    expect(admin.requests.map(({ path, body }) => [path, body])).toEqual([
      ['/admin/v1/sync', {}],
      ['/admin/v1/sync', { cursor: 'a' }],
      ['/admin/v1/sync', { cursor: 'b' }],
    ])
    expect(exit).toEqual({
      code: 0,
      stdout: 'Wrote 100 keys from the database to Redis.',
      stderr: '40 of 100 keys written\n80 of 100 keys written\n100 of 100 keys written\n',
    })
  })

  test('--json prints the sums', async () => {
    pages()
    const exit = await postern('keys', 'sync', '--json')
    expect(exit).toEqual({ code: 0, stdout: '{"synced":100,"total":100}', stderr: '' })
  })

  test('succeeds without any keys', async () => {
    admin.answers(says(200, { synced: 0, total: 0 }))
    expect((await postern('keys', 'sync')).code).toBe(0)
  })

  test('fails if the console fails in the middle', async () => {
    admin.answers(
      says(200, { synced: 40, total: 100, cursor: 'a' }),
      refuses(503, 'unavailable', 'Redis is not connected'),
    )
    const exit = await postern('keys', 'sync')
    expect([exit.code, exit.stdout]).toEqual([69, ''])
    expect(exit.stderr).toContain('could not do it: Redis is not connected (503 unavailable)')
  })
})

describe('an error is one sentence, with an exit code', () => {
  const LIST = ['keys', 'list', '--workspace', 'ws_1']

  test.each([
    [400, 'invalid_request', 65],
    [401, 'unauthenticated', 77],
    [403, 'forbidden', 77],
    [404, 'not_found', 65],
    [409, 'conflict', 65],
    [422, 'idempotency_mismatch', 65],
    [429, 'rate_limited', 69],
    [500, 'internal_error', 69],
  ])('%d %s: %d', async (status, code, exitCode) => {
    admin.answers(refuses(status, code, 'The message of the console'))
    const exit = await postern(...LIST)
    expect([exit.code, exit.stdout]).toEqual([exitCode, ''])
    expect(exit.stderr).toContain(`The message of the console (${status} ${code})`)
    expect(exit.stderr.trim().split('\n')).toHaveLength(1)
  })

  test.each([
    ['a gateway', 'not_found', 'There is no such resource'],
    ['the internal listener, or an older console', 'unknown_path', 'No resource at this path'],
  ])('the address is that of %s: 69, with the port of a console', async (_, code, text) => {
    admin.answers(refuses(404, code, text))
    const exit = await postern(...LIST)
    expect([exit.code, exit.stdout]).toEqual([69, ''])
    expect(exit.stderr).toContain(`(404 ${code}). Is it the address of a console, whose port is 8081`)
  })

  test('a failure of the console names the request id by which its operator finds the cause; a rejection has none', async () => {
    const body = JSON.stringify({ code: 'internal_error', error: 'See its log under this request id' })
    admin.answers((_, response) => void response.writeHead(500, { 'x-request-id': 'a-1' }).end(body))
    expect((await postern(...LIST)).stderr).toContain('(500 internal_error, request id a-1)')
    admin.answers((_, response) => void response.writeHead(409, { 'x-request-id': 'a-1' }).end(body))
    expect((await postern(...LIST)).stderr).not.toContain('a-1')
  })

  test('an https: address of a port without TLS is explained in words', async () => {
    const { code, stderr } = await postern(...LIST, '--url', admin.url.replace('http:', 'https:'))
    expect([code, stderr]).toEqual([
      69,
      expect.stringContaining('does not speak TLS; try an http: address. Check'),
    ])
  })

  test('an id that begins with key_ and is none gets the whole form of ids, which the prefix alone is not', async () => {
    const { code, stderr } = await postern('keys', 'show', 'key_x')
    expect([code, stderr]).toEqual([
      64,
      expect.stringContaining('key_ followed by 26 digits and capital letters'),
    ])
  })

  test('a required option that is mistyped is not called missing, and its value is not repeated', async () => {
    const value = 'files:read'
    for (const words of [['--scopes', value], [`--scpe=${value}`]]) {
      const { code, stderr } = await postern('keys', 'issue', '--workspace', 'ws_1', ...words)
      expect([code, stderr]).toEqual([
        64,
        expect.stringMatching(/unknown option '--sc\w+'\n\(Did you mean --scope\?\)/),
      ])
      expect(stderr).not.toContain(value)
    }
    const { stderr } = await postern('keys', 'issue', '--workspace', 'ws_1', '--name', 'a')
    expect(stderr).toContain("required option '--scope <scopes>' not specified")
  })

  test('a key in place of an id, or as an argument of find, is not repeated, and the text says how to find its id', async () => {
    const secret = `wsk_${'Ab1'.repeat(18)}`
    const shown = await postern('keys', 'show', secret)
    const found = await postern('keys', 'find', secret)
    const listed = await postern('keys', 'list', secret)
    expect([shown, found, listed].map(({ code }) => code)).toEqual([64, 64, 64])
    expect(shown.stderr).toContain('postern keys find')
    expect(found.stderr).toContain('from standard input')
    expect(listed.stderr).toContain('Expected 0 arguments but got 1.')
    expect(shown.stderr + found.stderr + listed.stderr).not.toContain(secret)
  })

  test('the connection is refused', async () => {
    const gone = await ScriptedAdmin.start()
    const { env, url } = gone
    await gone.stop()
    const exit = await runPosternHere(LIST, env)
    expect(exit).toMatchObject({ code: 69, stdout: '' })
    expect(exit.stderr).toBe(
      `The console at ${url} cannot be reached: connection refused. Check the address, and that the console is running\n`,
    )
  })

  test.each([
    ['an HTML page', (_: unknown, response: import('node:http').ServerResponse) => response.end('<html>')],
    ['another service’s 404', says(404, { message: 'no route' })],
    [
      'a redirect, which is not followed',
      (_: unknown, response: import('node:http').ServerResponse) =>
        response.writeHead(302, { location: '/elsewhere' }).end(),
    ],
  ])('the server is not a console: %s', async (_, script) => {
    admin.answers(script)
    const exit = await postern(...LIST)
    expect(exit).toMatchObject({ code: 69, stdout: '' })
    expect(exit.stderr).toContain('is not a Postern console')
    expect(admin.requests).toHaveLength(1)
  })

  const page =
    (status: number, fields: Record<string, string> = {}) =>
    (_: unknown, response: import('node:http').ServerResponse) =>
      void response.writeHead(status, { 'content-type': 'text/html', ...fields }).end('<html>a page</html>')

  test.each([
    ['502', page(502), 'The console cannot be reached (502 from URL): a proxy answers in its place'],
    ['503', page(503), 'The console cannot be reached (503 from URL): a proxy answers in its place'],
    ['504', page(504), 'The console cannot be reached (504 from URL): a proxy answers in its place'],
    ['JSON of its own', says(503, { message: 'no route' }), '(503 from URL): a proxy answers in its place'],
    ['too many requests', page(429, { 'retry-after': '7' }), 'limits requests. Try again in 7 seconds'],
    ['a forbidden page', page(403), '(403 from URL): a proxy before it does not let this request pass'],
    ['basic authentication', page(401), '(401 from URL): a proxy before it asks for credentials'],
    ['a sign-in page', page(200), 'a proxy before it asks people to sign in: it answers with text/html'],
    [
      'a redirect to a sign-in page',
      page(302, { location: 'https://login.example/start?state=secret' }),
      'it redirects to https://login.example/start (302)',
    ],
  ])('a proxy answers in place of the console, which is named: %s', async (_, script, said) => {
    for (const command of [LIST, ['keys', 'export', '-']]) {
      admin.answers(script)
      const exit = await postern(...command)
      expect(exit).toMatchObject({ code: 69, stdout: '' })
      expect(exit.stderr).toContain(said.replace('URL', admin.url))
      expect(exit.stderr).not.toMatch(/state=secret|a page/)
      expect(admin.requests).toHaveLength(1)
    }
  })

  test.each([
    ['a proxy answers 504', page(504)],
    ['the response is cut short', cutShort],
  ])('if %s, a key may have been issued, and the message says so', async (_, script) => {
    admin.answers(script)
    const exit = await postern(...ISSUE)
    expect(exit).toMatchObject({ code: 69, stdout: '' })
    expect(exit.stderr).toContain('A key may have been issued: check with')
  })

  test('a response that is cut short is incomplete', async () => {
    admin.answers(cutShort)
    const exit = await postern(...LIST)
    expect(exit).toMatchObject({ code: 69, stderr: expect.stringContaining('is incomplete') })
  })

  test('a response that this version does not understand', async () => {
    admin.answers(says(200, { keys: [{ id: 1 }] }))
    const exit = await postern(...LIST)
    expect(exit).toMatchObject({ code: 69, stderr: expect.stringContaining('of the same version?') })
  })

  test('messages of the console are printed without control characters', async () => {
    admin.answers(refuses(400, 'x\x1b]0;', 'y\x1b[2J\nz'))
    expect((await postern(...LIST)).stderr.slice(0, -1)).not.toMatch(/[\x00-\x1f]/)
  })

  test.each([
    ['no workspace', ['keys', 'issue', '--scope', 'files:read']],
    ['no scope', ['keys', 'issue', '--workspace', 'ws_1']],
    ['a workspace that cannot be one', ['keys', 'list', '--workspace', '../ws_1']],
    ['a lifetime in no unit', [...ISSUE, '--expires-in', '90']],
    ['a lifetime that is too long', [...ISSUE, '--expires-in', '400d']],
    ['an overlap that is too long', ['keys', 'rotate', ID, '--overlap', '31d']],
    ['no scope in a list', ['keys', 'issue', '--workspace', 'ws_1', '--scope', ',']],
    ['an unknown format', [...LIST, '-o', 'xml']],
    ['two formats', [...LIST, '-o', 'wide', '--json']],
    ['an unknown flag', [...LIST, '--al']],
    ['a word too many', [...LIST, 'more']],
    ['no command', ['keys']],
    ['an unknown command', ['keys', 'bake']],
  ])('a wrong command line exits 64, and sends no request: %s', async (_, args) => {
    expect(await postern(...args)).toMatchObject({ code: 64, stdout: '' })
    expect(admin.requests).toEqual([])
  })

  test('help exits 0', async () => {
    const exit = await postern('keys', 'issue', '--help')
    expect(exit).toMatchObject({ code: 0, stdout: expect.stringContaining('--workspace <id>') })
  })

  test('a key that was pasted in place of its id is in no message and no request', async () => {
    for (const command of ['revoke', 'rotate']) {
      const exit = await postern('keys', command, SECRET)
      expect(exit.code).toBe(64)
      expect(exit.stderr).not.toContain(SECRET)
    }
    expect(admin.requests).toEqual([])
  })

  test('nor is the value of an unknown flag', async () => {
    const exit = await postern(...LIST, `--tokn=${TOKEN}`)
    expect(exit).toMatchObject({ code: 64, stderr: expect.stringContaining('--tokn') })
    expect(exit.stderr).not.toContain(TOKEN)
  })
})

describe('address and token of the console', () => {
  const LIST = ['keys', 'list', '--workspace', 'ws_1']
  const authorization = () => admin.requests.at(-1)?.headers.authorization

  test('flags take precedence over the environment', async () => {
    const env = { POSTERN_CONSOLE_URL: 'http://127.0.0.1:9', POSTERN_ADMIN_TOKEN: 'another-token-entirely' }
    const exit = await runPosternHere([...LIST, '--url', `${admin.url}/`, '--token', TOKEN], env)
    expect([exit.code, authorization()]).toEqual([0, `Bearer ${TOKEN}`])
  })

  test.each(['flag', 'variable'])('the token may come from a file: %s', async way => {
    const file = fileWith(`${TOKEN}\n`)
    const env: Record<string, string> = { POSTERN_CONSOLE_URL: admin.url }
    if (way === 'variable') env['POSTERN_ADMIN_TOKEN_FILE'] = file
    const exit = await runPosternHere([...LIST, ...(way === 'flag' ? ['--token-file', file] : [])], env)
    expect([exit.code, authorization()]).toEqual([0, `Bearer ${TOKEN}`])
  })

  test('the address may have a path, as behind an ingress', async () => {
    await runPosternHere([...LIST, '--url', `${admin.url}/postern/`], admin.env)
    expect(admin.requests[0]?.path).toBe('/postern/admin/v1/keys?workspaceId=ws_1&limit=200')
  })

  test('settings of gateway and console are neither required nor checked', async () => {
    const exit = await runPosternHere(LIST, {
      ...admin.env,
      POSTERN_NO_SUCH_SETTING: '1',
      POSTERN_LOG_LEVEL: 'loud',
      POSTERN_CONFIG: '/nowhere',
    })
    expect(exit.code).toBe(0)
  })

  test.each([
    ['no address', { POSTERN_CONSOLE_URL: '' }, /--url or POSTERN_CONSOLE_URL/],
    ['a malformed address', { POSTERN_CONSOLE_URL: 'canary' }, /^POSTERN_CONSOLE_URL must be/],
    [
      'an address without http://',
      { POSTERN_CONSOLE_URL: '127.0.0.1:8081' },
      /^POSTERN_CONSOLE_URL must be an http: or https: address .*, such as http:\/\/127\.0\.0\.1:8081/,
    ],
    ['a password in it', { POSTERN_CONSOLE_URL: 'http://u:canary@h' }, /^POSTERN_CONSOLE_URL must be/],
    ['no token', { POSTERN_ADMIN_TOKEN: '' }, /POSTERN_ADMIN_TOKEN_FILE/],
    ['a token with a space', { POSTERN_ADMIN_TOKEN: 'canary canary' }, /^POSTERN_ADMIN_TOKEN is not a token/],
    ['a token twice', { POSTERN_ADMIN_TOKEN_FILE: '/canary' }, /twice/],
    [
      'a token in place of the name of its file',
      { POSTERN_ADMIN_TOKEN: '', POSTERN_ADMIN_TOKEN_FILE: 'canary-canary' },
      /^POSTERN_ADMIN_TOKEN_FILE names a file that cannot be read: ENOENT/,
    ],
  ])('%s exits 64, with a message that repeats no secret', async (_, env, message) => {
    const exit = await runPosternHere(LIST, { ...admin.env, ...env })
    expect(exit).toMatchObject({ code: 64, stdout: '', stderr: expect.stringMatching(message) })
    expect(exit.stderr).not.toContain('canary')
    expect(admin.requests).toEqual([])
  })
})
