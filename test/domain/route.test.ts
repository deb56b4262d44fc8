import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  buildUpstreamPath,
  compileRoutes,
  isAmbiguousPath,
  matchRoute,
} from '../../src/domain/route/route.ts'
import { threadCpuMs } from '../support/cpu-time.ts'
import { ROUTES } from './examples.ts'

const B = '/api/v1/workspaces'

function routeOf(path: string): string | null {
  return matchRoute(ROUTES, path)?.route.name ?? null
}

describe('the three endpoints', () => {
  it.each([
    ['/api/v1/auth', 'auth', {}],
    [`${B}/ws_A`, 'workspace', { workspaceId: 'ws_A' }],
    [`${B}/ws_A/files`, 'files', { workspaceId: 'ws_A' }],
    [`${B}/files`, 'workspace', { workspaceId: 'files' }],
    [`${B}/files/files`, 'files', { workspaceId: 'files' }],
  ])('are found by their whole path: %s', (path, name, parameters) => {
    const match = matchRoute(ROUTES, path)
    expect(match?.route.name).toBe(name)
    expect(Object.fromEntries(match?.parameters ?? [])).toEqual(parameters)
  })
})

describe('a path that another server might read as another path matches no route', () => {
  it.each([
    // P04, P08: dot segments, in any encoding
    `${B}/ws_A/../ws_B`,
    `${B}/ws_A/%2e%2e/ws_B`,
    `${B}/ws_A/.%2E/ws_B`,
    `${B}/.`,
    `${B}/..`,
    `${B}/%2e`,
    `${B}/%2E%2e`,
    `${B}/.%2e`,
    `${B}/%252e`,
    `${B}/%25252e%2e`,
    `${B}/./files`,
    `${B}/%2e/files`,
    '/./api/v1/auth',
    '/api/v1/../v1/auth',
    // digits of the escape that are escaped themselves
    `${B}/%25%32%65`,
    `${B}/%%32%65`,
    `${B}/%2%65`,
    `${B}/%%32e`,
    // P05, P10, P31: encoded slashes
    `${B}/ws_A%2f..%2fws_B`,
    `${B}/ws_A%2F%2e%2e%2Fws_B`,
    `${B}/ws_A%252f..%252fws_B`,
    `${B}/ws_A%25%32%66ws_B`,
    `${B}/ws_A%2%46files`,
    `${B}/ws_A%2ffiles`,
    '/api%2fv1/auth',
    // P07: backslashes
    `${B}/ws_A%5c..%5cws_B`,
    `${B}/ws_A\\..\\ws_B`,
    `${B}/ws_A%255Cfiles`,
    // P11: empty segments
    `${B}//ws_A`,
    '//api/v1/workspaces/ws_A',
    '/api//v1/workspaces/ws_A',
    '//gw/api/v1/auth',
    `${B}/`,
    `${B}/ws_A/`,
    `${B}/ws_A/files/`,
    '/api/v1/auth/',
    // P13: path parameters
    `${B}/ws_A;x=1`,
    `${B}/ws_A;/../ws_B`,
    `${B}/..;/ws_B`,
    '/api/v1/auth;x',
    // P16, P23: control characters
    `${B}/ws_A\0`,
    `${B}/ws_A%00`,
    `${B}/ws_A%09`,
    `${B}/ws_A%0d%0aX:1`,
    `${B}/ws_A%7f`,
    `${B}/ws_A%2500`,
    `${B}/ws_A\t`,
    `${B}/ws_A\x7f`,
    // P26: fragments
    `${B}/ws_A#x`,
    `${B}/ws_A#/../ws_B`,
    '/api/v1/auth#',
    // P28, P29: absolute form, authority form, asterisk form
    'http://gw',
    'http://gw/api/v1/auth',
    'HTTP://gw/api/v1/auth',
    'http://evil/api/v1/workspaces/ws_A',
    'gw:443',
    '*',
    '',
    // P38: beside or above the base
    `${B}/../../internal`,
    '/api/v1/../../admin',
  ])('%j', path => {
    expect(routeOf(path)).toBeNull()
  })
})

describe('an unknown path matches no route', () => {
  it.each([
    // P19, P22: an encoded or differently cased form of a fixed part is another path
    '/%61pi/v1/workspaces/ws_A',
    `${B}/ws_A/%66iles`,
    '/API/v1/workspaces/ws_A',
    '/api/V1/workspaces/ws_A',
    // P32: suffixes
    `${B}/ws_A/FILES`,
    `${B}/ws_A/files.json`,
    `${B}/ws_A/files/x.css`,
    `${B}/ws_A/file`,
    `${B}/ws_A/filesx`,
    // P38
    '/',
    '/metrics',
    '/healthz',
    '/livez',
    '/admin',
    '/admin/v1/keys',
    '/internal/v1/keys/x',
    B,
    '/api/v1',
    '/api/v1/authx',
    '/api/v1/aut',
    '/api/v1/auth/x',
    'api/v1/auth',
    ' /api/v1/auth',
  ])('%j', path => {
    expect(routeOf(path)).toBeNull()
  })
})

/** Every server reads these as one segment. `authorize` compares it with the key's workspace, byte for byte. */
describe('any other text in the workspace segment matches, and the workspace check rejects it', () => {
  it.each([
    'ws_B',
    'ws_Z',
    'WS_A',
    '%77s_A',
    'ws_A%3bjsessionid=1',
    'ws_A%c0%af..%c0%afws_B',
    'ws_A%e0%80%af',
    'ws_%EF%BC%A1',
    '%E2%84%AA',
    '%C2%AD',
    'ws_A%20',
    '%20ws_A',
    'ws_A%E2%80%8B',
    'ws_A%EF%BB%BF',
    'ws_A%',
    'ws_A%2',
    '%zz',
    'ws_A%u002f',
    'ws_A.css',
    '__proto__',
    'constructor',
    'toString',
    'hasOwnProperty',
    '*',
    '%2a',
    'ws_A,ws_B',
    '{ws_A}',
    '{workspaceId}',
    'ws_A%7Cws_B',
    'ws_A+ws_B',
    '-',
    'me',
    'default',
    'ws_A%3flimit=9',
    'ws_A%26',
    '...',
    '.ws_A',
    'ws_A.',
    '%2e%2e%2e',
    'x'.repeat(5000),
  ])('%s', segment => {
    const match = matchRoute(ROUTES, `${B}/${segment}`)
    expect(match?.route.name).toBe('workspace')
    expect(match?.parameters.get('workspaceId')).toBe(segment)
  })
})

describe('matching', () => {
  /** A server as lenient as possible: decodes all escapes repeatedly. */
  function decodeFully(text: string): string {
    const decoded = text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) =>
      String.fromCharCode(parseInt(hex, 16)),
    )
    return decoded === text ? text : decodeFully(decoded)
  }

  const piece = fc.constantFrom(
    '%',
    '25',
    '2',
    '5',
    '%2f',
    '%2e',
    '%5c',
    '.',
    '..',
    'e',
    'E',
    'f',
    '%65',
    '%32',
    '%35',
    '%66',
    '%00',
    'ws_A',
    '/',
    ';',
    '#',
    '0',
  )

  it('never accepts a segment that becomes several, or none, after any number of decodings', () => {
    fc.assert(
      fc.property(fc.array(piece, { minLength: 1, maxLength: 8 }), pieces => {
        const path = `${B}/${pieces.join('')}`
        if (matchRoute(ROUTES, path) === null) return
        const decoded = decodeFully(path)
        expect(decoded.split('/').length).toBe(path.split('/').length)
        expect(decoded).not.toMatch(/[\\\u0000-\u001f\u007f]|\/\.{1,2}(\/|$)|\/\/|\/$/)
      }),
      { numRuns: 20_000 },
    )
  })

  it('takes time proportional to the length of the path, for every content', () => {
    const hostile = [
      '%25'.repeat(2700),
      `%${'25'.repeat(4000)}`,
      `${'%2'.repeat(2000)}${'5'.repeat(2000)}`,
      '/.'.repeat(4000),
      '%'.repeat(8000),
    ]
    const started = threadCpuMs()
    for (const text of hostile) matchRoute(ROUTES, `${B}/${text}`)
    // A quadratic algorithm would take hundreds of milliseconds.
    expect(threadCpuMs() - started).toBeLessThan(100)
  })

  it('prefers a literal segment to a parameter, in every order of configuration', () => {
    const configs = [
      { name: 'one', path: '/w/{workspaceId}/files/{fileId}' },
      { name: 'recent', path: '/w/{workspaceId}/files/recent' },
    ]
    for (const order of [configs, configs.toReversed()]) {
      const routes = compileRoutes(order)
      expect(matchRoute(routes, '/w/a/files/recent')?.route.name).toBe('recent')
      expect(matchRoute(routes, '/w/a/files/recents')?.route.name).toBe('one')
    }
  })

  it('accepts only unreserved characters in a parameter that is copied to the upstream', () => {
    const routes = compileRoutes([{ name: 'file', path: '/w/{workspaceId}/files/{fileId}' }])
    expect(matchRoute(routes, '/w/a/files/f_1.pdf~')?.parameters.get('fileId')).toBe('f_1.pdf~')
    for (const text of [
      '%41',
      'a b',
      'a,b',
      'a+b',
      'a:b',
      'é',
      '..',
      '.',
      '*',
      'a&b',
      'a=b',
      'x'.repeat(129),
    ]) {
      expect(matchRoute(routes, `/w/a/files/${text}`), text).toBeNull()
    }
  })
})

it.each(['/x/%2e%2e/y', '/x/.%2E', '/x/%252e%252e/y', '/xy%2Fz', '/xy%5cz'])(
  '%s is ambiguous in a path of any beginning',
  path => {
    expect(isAmbiguousPath(path)).toBe(true)
  },
)

it.each(['/x/y', '/x/%41', '/bc%2g', '/x/%2'])('%s is not ambiguous', path => {
  expect(isAmbiguousPath(path)).toBe(false)
})

describe('a configured route', () => {
  it('has no scope, is answered by the upstream, and shares no responses, unless it says so', () => {
    const [plain] = compileRoutes([{ name: 'r', path: '/r/{}x/{a' }])
    expect(plain).toMatchObject({ scope: null, answeredBy: 'upstream', isCoalesced: false })
    expect(plain?.segments).toEqual([{ literal: 'r' }, { literal: '{}x' }, { literal: '{a' }])
    const [shared] = compileRoutes([{ name: 'r', path: '/r', coalesce: true, scope: 's' }])
    expect(shared).toMatchObject({ scope: 's', isCoalesced: true })
    const [own] = compileRoutes([{ name: 'r', path: '/r', answeredBy: 'gateway' }])
    expect(own).toMatchObject({ answeredBy: 'gateway' })
  })

  it('without the parameter that its upstream path names has no path there', () => {
    const [route] = compileRoutes([{ name: 'r', path: '/r', upstreamPath: '/{b}' }])
    if (route === undefined) throw new Error('There is a route')
    expect(() => buildUpstreamPath({ route, parameters: new Map() }, 'ws_1')).toThrow(
      'Route r has no parameter b',
    )
  })

  it('matches no path that does not begin with a slash', () => {
    const routes = compileRoutes([{ name: 'r', path: '/r' }])
    expect([matchRoute(routes, 'r'), matchRoute(routes, 'xr'), matchRoute(routes, '')]).toEqual([
      null,
      null,
      null,
    ])
  })
})

describe('the path at the upstream', () => {
  it('contains the key’s own workspace, never the requested text', () => {
    const match = matchRoute(ROUTES, `${B}/ws_B/files`)
    expect(match && buildUpstreamPath(match, 'ws_A')).toBe(`${B}/ws_A/files`)
  })

  it('may differ from the public path', () => {
    const [route] = compileRoutes([
      {
        name: 'file',
        path: '/v1/{workspaceId}/f/{fileId}',
        upstreamPath: '/x/{fileId}/of/{workspaceId}/raw',
      },
    ])
    const match = route && matchRoute([route], '/v1/ws_A/f/f_1')
    expect(match && buildUpstreamPath(match, 'ws_A')).toBe('/x/f_1/of/ws_A/raw')
  })
})
