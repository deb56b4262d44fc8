import { describe, expect, test } from 'vitest'
import { encodeCursor, KEY_SORTS } from '../../../src/console/keys/search/key-query.ts'
import { type Person, personActor } from '../../../src/console/platform/access/principal.ts'
import { localPath, returnPath, signInPath } from '../../../src/console/platform/html/paths.ts'
import { createAddressLimit } from '../../../src/console/platform/http/authenticate-programs.ts'
import { isOwnHost, isOwnPage, parseSite } from '../../../src/console/sign-in/authenticate-people.ts'
import { readPerson } from '../../../src/console/sign-in/claims.ts'
import { createOneTimeLink } from '../../../src/console/sign-in/one-time-link.ts'
import { createProvider } from '../../../src/console/sign-in/provider.ts'
import { explainUserInfoError } from '../../../src/console/sign-in/sign-in-error.ts'
import { NO_PROXIES } from '../../../src/domain/proxy.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { silentLogger } from '../../support/silent-logger.ts'

const ada: Person = {
  subject: 'ada',
  name: 'Ada',
  workspaces: ['ws_1'],
  administrator: false,
  role: 'manager',
}

describe('an actor', () => {
  test('identifies the person independently of their name', () => {
    expect(personActor({ subject: 'admin-token' })).toBe('person:admin-token')
  })
})

describe('a return path', () => {
  test.each(['/', '/keys', '/keys?state=active&x=%2F', '/workspaces/ws_1/keys', '/a//b', '/~x'])(
    '%s is one of ours',
    path => {
      expect(localPath(path)).toBe(path)
      expect(signInPath(path)).toMatch(path === '/' ? /^\/sign-in$/ : /^\/sign-in\?then=%2F/)
    },
  )

  test.each<unknown>([
    '',
    'keys',
    '//evil.example',
    '///evil.example',
    '/\\evil.example',
    '\\\\evil.example',
    '/a\\b',
    'https://evil.example/',
    'javascript:alert(1)',
    '/\t/evil.example',
    '/\n/evil.example',
    '/..//evil.example',
    '/.//evil.example',
    '/a b',
    '/sign-in',
    '/sign-in?then=/',
    '/sign-out',
    '/x/../sign-out',
    `/${'x'.repeat(1024)}`,
    '/ü',
    undefined,
    null,
    7,
    ['/'],
  ])('%j is none', text => {
    expect(localPath(text)).toBeNull()
  })
})

describe('a return path after signing in', () => {
  const KEY = `wsk_${'A'.repeat(54)}`
  const ULID = '01ARZ3NDEKTSV4RRFFQ69G5FAV'
  const CURSORS = [
    ...KEY_SORTS.flatMap(sort => {
      const value = sort === 'name' ? 'n'.repeat(200) : 1_764_000_000_000
      return [true, false].map(descending => encodeCursor({ sort, descending }, { value, id: `key_${ULID}` }))
    }),
    ...[`audit_${ULID}`, `msg_${ULID}`, `tok_${ULID}`, 'ws_1', 'ada'],
    `${10 ** 14}.${'0'.repeat(8)}-0000-0000-0000-${'0'.repeat(12)}`,
    `100.${'a'.repeat(22)}`,
  ]

  test.each<readonly [string | undefined, string | null]>([
    ['/workspaces/ws_1/keys?state=active&sort=-createdAt&scope=files:read', null],
    ['/keys?plan=free-tier&scope=files-read', null],
    ['/workspaces/ws_1/usage?range=7d', null],
    ['/workspaces/ws_1/keys/new?expired=1', null],
    ['/find-key?workspace=ws_1', null],
    ...CURSORS.map(cursor => [`/workspaces/ws_1/audit?cursor=${cursor}`, null] as const),
    [`/find-key?workspace=${KEY}`, '/find-key'],
    ['/find-key?workspace=a%2Fb', '/find-key'],
    ['/audit?workspace=SECRET', '/audit'],
    [`/keys?cursor=${KEY}`, '/keys'],
    [`/workspaces/ws_1/keys?q=${KEY}&state=active`, '/workspaces/ws_1/keys?state=active'],
    ['/workspaces/ws_1/keys?q=importer', '/workspaces/ws_1/keys'],
    [`/workspaces?workspace=${KEY}`, '/workspaces'],
    [`/workspaces/ws_1/keys?state=${KEY}`, '/workspaces/ws_1/keys'],
    [`/keys?plan=${KEY}`, '/keys'],
    ['/workspaces/ws_1/webhook?url=https%3A%2F%2Fhooks.example%2FSECRET', '/workspaces/ws_1/webhook'],
    ['/workspaces/ws_1/keys/new?expired=SECRET', '/workspaces/ws_1/keys/new'],
    [`/workspaces/${KEY}/keys`, '/'],
    ['//evil.example', '/'],
    [undefined, '/'],
  ])('%s has no fields of forms', (path, expected) => {
    const found = new URL(returnPath(path), 'http://x')
    const wanted = new URL(expected ?? String(path), 'http://x')
    expect([found.pathname, ...found.searchParams]).toEqual([wanted.pathname, ...wanted.searchParams])
  })
})

describe('a person from claims', () => {
  const names = {
    workspacesClaim: 'workspaces',
    administratorClaim: 'roles',
    administratorValue: 'admin',
    viewerValue: 'viewer',
  }

  test.each<[string, unknown, string[]]>([
    ['a list', ['ws_2', 'ws_1', 'ws_1'], ['ws_1', 'ws_2']],
    ['a text', 'ws_1', ['ws_1']],
    ['a text of several, which is no workspace', 'ws_1 ws_2', []],
    ['a text with spaces around it', ' ws_1 ', []],
    ['a text with commas', 'ws_1,ws_2', []],
    ['a list with what is no name', ['ws_1', 'a/b', '..', '', 7, null, { id: 'x' }, 'a b'], ['ws_1']],
    ['an object', { ws_1: true }, []],
    ['a number', 7, []],
    ['null', null, []],
  ])('workspaces in %s', (_, workspaces, expected) => {
    expect(readPerson({ sub: 'ada', workspaces }, names)?.workspaces).toEqual(expected)
  })

  test('has at most 1,000 workspaces', () => {
    const workspaces = Array.from({ length: 1200 }, (_, index) => `ws_${index}`)
    const ada = readPerson({ sub: 'ada', workspaces }, names)
    expect([ada?.workspaces.length, ada?.workspacesGranted]).toEqual([1000, 1200])
    const grace = readPerson({ sub: 'grace', workspaces: workspaces.slice(0, 1000) }, names)
    expect([grace?.workspaces.length, grace?.workspacesGranted]).toEqual([1000, undefined])
  })

  const named = { ...names, workspaceNamesClaim: 'https://example.com/names' }
  const nameOf = (id: string, claim: unknown, more = {}) => {
    const claims = { sub: 'ada', workspaces: [id], 'https://example.com/names': claim, ...more }
    return new Map(Object.entries(readPerson(claims, named)?.workspaceNames ?? {})).get(id)
  }

  test.each<[string, string, unknown, string | undefined]>([
    ['an object', 'ws_1', { ws_1: 'Northwind', ws_2: 'of another' }, 'Northwind'],
    ['the JSON text of one', 'ws_1', '{"ws_1":"Northwind"}', 'Northwind'],
    ['a long name', 'ws_1', { ws_1: 'n'.repeat(500) }, 'n'.repeat(60)],
    ['line breaks and marks of direction', 'ws_1', { ws_1: ' North\n\u202ewind ' }, 'Northwind'],
    ['nothing visible', 'ws_1', { ws_1: '\u2800 ' }, undefined],
    ['the id again', 'ws_1', { ws_1: 'ws_1' }, undefined],
    ['a number', 'ws_1', { ws_1: 7 }, undefined],
    ['an id that every object has a property of', 'constructor', {}, undefined],
    ['an id that is special to objects', '__proto__', '{"__proto__":"Northwind"}', 'Northwind'],
    ['a list', 'ws_1', ['Northwind'], undefined],
    ['a text', 'ws_1', 'Northwind', undefined],
    ['null', 'ws_1', null, undefined],
  ])('the name of a workspace from %s', (_, id, claim, expected) => {
    expect(nameOf(id, claim)).toBe(expected)
  })

  test('names are kept of the workspaces of a person, and of up to 1,000 for an administrator, and grant none', () => {
    const many = Object.fromEntries(Array.from({ length: 1200 }, (_, index) => [`ws_${index}`, 'n']))
    const claims = { sub: 'ada', workspaces: ['ws_3'], 'https://example.com/names': many }
    expect(readPerson(claims, named)).toMatchObject({ workspaces: ['ws_3'], workspaceNames: { ws_3: 'n' } })
    const root = readPerson({ ...claims, roles: 'admin' }, { ...named, administratorValue: 'admin' })
    expect([root?.workspaces, Object.keys(root?.workspaceNames ?? {}).length]).toEqual([['ws_3'], 1000])
    expect(readPerson(claims, names)?.workspaceNames).toBeUndefined()
  })

  test.each<[unknown, string]>([
    [['ws_1'], 'a list'],
    [7, 'a number'],
    ['ws_1=Northwind', 'a text that is no JSON object'],
  ])('a claim of names that is %j is said not to be used', (claim, shape) => {
    const claims = { sub: 'ada', workspaces: ['ws_1'], 'https://example.com/names': claim }
    expect(readPerson(claims, named)?.unusedClaims).toMatchObject([{ setting: 'workspaceNamesClaim', shape }])
  })

  test.each<[unknown, string, boolean]>([
    [['x', 'admin'], 'admin', true],
    ['admin', 'admin', true],
    ['x admin', 'admin', false],
    ['administrator', 'admin', false],
    [['administrator', 'x admin', 'admin x'], 'admin', false],
    [[['admin']], 'admin', false],
    ['not keys-admin', 'keys-admin', false],
    ['keys-admin', 'keys-admin', true],
    [true, 'true', true],
    ['true', 'true', true],
    [false, 'true', false],
    [undefined, 'undefined', false],
    [{ admin: true }, 'admin', false],
  ])('with roles %j is an administrator, for %j: %s', (roles, administratorValue, expected) => {
    expect(readPerson({ sub: 'a', roles }, { ...names, administratorValue })?.administrator).toBe(expected)
  })

  test('is never an administrator without a configured claim', () => {
    const claims = { sub: 'a', roles: ['true'], true: true, undefined: 'true' }
    const own = { workspacesClaim: 'w', administratorValue: 'true', viewerValue: 'true' }
    expect(readPerson(claims, own)).toMatchObject({ administrator: false, role: 'manager' })
  })

  test('a text that denies a role grants none: no claim is split into words', () => {
    const viewer = { ...names, viewerClaim: 'roles' }
    const roles = 'not admin viewer'
    expect(readPerson({ sub: 'a', roles }, viewer)).toMatchObject({ administrator: false, role: 'manager' })
  })

  test.each<[unknown, string]>([
    ['viewer', 'viewer'],
    [['x', 'viewer'], 'viewer'],
    [['viewers'], 'manager'],
    ['viewer x', 'manager'],
    [undefined, 'manager'],
  ])('with the groups %j is a %s', (groups, role) => {
    expect(readPerson({ sub: 'a', groups }, { ...names, viewerClaim: 'groups' })?.role).toBe(role)
  })

  test.each([
    ['a.b', { 'a.b': 'ws_1', a: { b: 'ws_2' } }],
    ['a.b', { a: { b: 'ws_1' } }],
    ['a.b.c', { 'a.b': { c: 'ws_1' } }],
    ['a.b.c', { a: null, 'a.b': { c: 'ws_1' } }],
  ])('a claim %s is the one of that name, or the one within another', (workspacesClaim, claims) => {
    const person = readPerson({ sub: 'a', ...claims }, { ...names, workspacesClaim })
    expect(person?.workspaces).toEqual(['ws_1'])
  })

  test.each(['__proto__', 'constructor.name', 'toString'])(
    'what every object has is no claim: %s',
    workspacesClaim => {
      expect(readPerson({ sub: 'a' }, { ...names, workspacesClaim })?.workspaces).toEqual([])
    },
  )

  test.each<[object, string]>([
    [{ name: 'Ada Lovelace', email: 'a@x' }, 'Ada Lovelace'],
    [{ name: ' ', preferred_username: 'ada' }, 'ada'],
    [{ email: 'ada@example.com' }, 'ada@example.com'],
    [{}, 'the-subject'],
    [{ name: 'a\u202eb\u200bc\u0000d\ne' }, 'abcde'],
    [{ name: '\u200b' }, 'the-subject'],
    [{ name: '😀'.repeat(200) }, '😀'.repeat(100)],
  ])('is called as %j says: %s', (claims, expected) => {
    expect(readPerson({ sub: 'the-subject', ...claims }, names)?.name).toBe(expected)
  })

  test.each<unknown>([undefined, '', 7, 'a\nb', 'ü', 'x'.repeat(256)])('rejects the sub %j', sub => {
    expect(readPerson({ sub }, names)).toBeNull()
  })
})

describe('the public URL', () => {
  const site = parseSite('https://console.test')

  test.each<[object, boolean]>([
    [{}, true],
    [{ origin: 'https://console.test' }, true],
    [{ origin: 'https://console.test', 'sec-fetch-site': 'same-origin' }, true],
    [{ 'sec-fetch-site': 'none' }, true],
    [{ origin: 'null' }, false],
    [{ origin: '' }, false],
    [{ origin: 'https://console.test.evil.example' }, false],
    [{ 'sec-fetch-site': 'same-site' }, false],
    [{ origin: 'https://console.test', 'sec-fetch-site': 'cross-site' }, false],
    [{ 'sec-fetch-site': ['same-origin', 'cross-site'] }, false],
  ])('a request with %j comes from a page of ours: %s', (headers, expected) => {
    expect(isOwnPage(site, headers)).toBe(expected)
  })

  test('on plain http has cookies that a browser takes there, and its own port alone', () => {
    const local = parseSite('http://127.0.0.1:8081')
    expect(local).toMatchObject({ secure: false, sessionCookie: 'postern-session' })
    expect(
      ['127.0.0.1:8081', '127.0.0.1', 'localhost:8081', undefined].map(host => isOwnHost(local, host)),
    ).toEqual([true, false, false, false])
  })
})

test.each([
  ['no-such-file.pem', 'console.oidc.caFile names a file that cannot be read: ENOENT'],
  [import.meta.filename, 'console.oidc.caFile: '],
])('a file without the provider’s authority stops the start, with its setting: %s', (caFile, text) => {
  const settings = {
    ...{ issuer: 'https://id.test', clientId: 'c', scopes: [], timeoutMs: 1_000, caFile },
    ...{ workspacesClaim: 'workspaces', administratorValue: 'a', viewerValue: 'v' },
  }
  const parts = { redirectUri: 'https://console.test/', logger: silentLogger, proxies: NO_PROXIES }
  expect(() => createProvider(settings, { ...parts, clock: new ManualClock() })).toThrow(text)
})

test('only a rejected access token is said to be one: other failures of the userinfo endpoint keep their reason', () => {
  const error = new Error('timed out')
  expect(() => explainUserInfoError(error)).toThrow(error)
})

describe('the link of the demo', () => {
  const bytes = (size: number) => new Uint8Array(size).fill(9)
  const tokenOf = (path: string) => new URL(path, 'http://x').searchParams.get('token')

  test('signs in once', () => {
    const link = createOneTimeLink(ada, new ManualClock(), bytes)
    expect([link.take('x'), link.take(undefined), link.take(['x'])]).toEqual([null, null, null])
    expect(link.take(tokenOf(link.path))).toEqual(ada)
    expect(link.take(tokenOf(link.path))).toBeNull()
  })

  test('gives way to a new one, which works once more', () => {
    let made = 0
    const link = createOneTimeLink(ada, new ManualClock(), size => new Uint8Array(size).fill(made++))
    const first = tokenOf(link.path)
    link.renew()
    expect([link.take(first), link.take(tokenOf(link.path)), link.take(tokenOf(link.path))]).toEqual([
      null,
      ada,
      null,
    ])
  })

  test('expires after an hour', () => {
    const clock = new ManualClock()
    const link = createOneTimeLink(ada, clock, bytes)
    clock.advance(3_600_000)
    expect(link.take(tokenOf(link.path))).toBeNull()
  })
})

describe('attempts are limited by address', () => {
  const bytes = (size: number) => new Uint8Array(size).fill(1)

  test('and all addresses of an IPv6 /64 share one limit', async () => {
    const limit = createAddressLimit(2, bytes)
    expect(await limit('2001:db8::1')).toBe(0)
    expect(await limit('2001:db8:0:0:ffff::2')).toBe(0)
    expect(await limit('2001:db8::3')).toBeGreaterThan(0)
    expect(await limit('2001:db8:0:1::1')).toBe(0)
    expect(await limit('192.0.2.1')).toBe(0)
    expect(await limit('192.0.2.2')).toBe(0)
  })

  test('in as many counts as there are buckets, and no more', async () => {
    const limit = createAddressLimit(1, bytes)
    const waits = await Promise.all(
      Array.from({ length: 100_000 }, (_, index) => limit(`203.0.${index >> 8}.${index}`)),
    )
    expect(waits.filter(wait => wait === 0).length).toBeLessThanOrEqual(65_536)
  })
})
