import fc from 'fast-check'
import { expect, test } from 'vitest'
import { authorize, type Permit } from '../../../src/domain/authorize.ts'
import type { KeyGrant } from '../../../src/domain/key/key-record.ts'
import { compileRoutes, matchRoute } from '../../../src/domain/route.ts'
import { compileRequestHeaders } from '../../../src/upstream/request-headers.ts'
import { compileCacheKey, fitsKey, validatorsOf } from '../../../src/upstream/response-cache/cache-key.ts'

const PASSED_ON = ['Accept', 'accept-language', 'If-None-Match', 'If-Modified-Since', 'traceparent', 'X-A']
const ROUTES = compileRoutes([
  { name: 'one', path: '/w/{workspaceId}', shareAnswers: true },
  { name: 'two', path: '/w/{workspaceId}/f/{file}', shareAnswers: true },
])
const cacheKeyOf = compileCacheKey(PASSED_ON)
const headersOf = compileRequestHeaders(PASSED_ON, { 'x-service-token': 'fixed' })
/** Said here anew: what of a request may differ, and the answer still be the same. */
const OF_ONE_CALLER = ['x-request-id', 'x-postern-key-id', 'x-forwarded-for', 'traceparent']

/** Few different values, so that two often have the same; and such as run into each other where nothing parts them. */
const text = fc.constantFrom('', 'a', 'b', 'a:b', ':', ',', 'files:read', ' ')
const field = fc.option(text, { nil: undefined })
const asked = fc.record({
  workspaceId: fc.constantFrom('a', 'b', 'a.b'),
  scopes: fc.uniqueArray(fc.constantFrom('a', 'b', 'a:b')).map(scopes => scopes.sort()),
  id: fc.constantFrom('key_1', 'key_2'),
  path: fc.constantFrom('', '/f/a', '/f/b'),
  client: fc.record({
    accept: field,
    'accept-language': field,
    'x-a': field,
    'if-none-match': field,
    'if-modified-since': field,
    traceparent: field,
    // Goes no further, so it cannot matter.
    cookie: field,
  }),
  requestId: text,
  forwarded: fc.record({ for: text, host: text, proto: fc.constantFrom('http' as const, 'https' as const) }),
})
const name = fc.constantFrom(
  'accept',
  'accept-language',
  'x-a',
  'if-none-match',
  'if-modified-since',
  'cookie',
)
type Asked = typeof asked extends fc.Arbitrary<infer Value> ? Value : never

function permitFor({ workspaceId, scopes, id, path }: Asked): Permit {
  const match = matchRoute(ROUTES, `/w/${workspaceId}${path}`)
  if (match === null) throw new Error('No route')
  const grant: KeyGrant = {
    id,
    workspaceId,
    scopes,
    hint: '',
    expiresAtMs: 1,
    revokedAtMs: null,
    suspendedAtMs: null,
    allowedCidrs: [],
    version: 1,
  }
  const lookup = { kind: 'found', grant, tier: 'memory' } as const
  const verdict = authorize({ lookup, match, query: '', nowMs: 0 })
  if (verdict.kind === 'denied') throw new Error(verdict.reason)
  return verdict.permit
}

/** All that the upstream is told. */
function told(one: Asked): Record<string, string> {
  const permit = permitFor(one)
  return { ...headersOf(one.client, permit.grant, one), ':target': permit.upstreamTarget }
}

function without(fields: Record<string, string>, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name)))
}

const same = (one: object, other: object) =>
  JSON.stringify(Object.entries(one).sort()) === JSON.stringify(Object.entries(other).sort())

/** Two that were drawn apart are hardly ever alike, so some differ from the other in a field or two only. */
const pair = fc
  .record({ one: asked, any: asked, names: fc.tuple(name, name), value: field, kind: fc.nat(3) })
  .map(({ one, any, names: [first, second], value, kind }) => {
    const { id, requestId } = any
    const client = { ...one.client }
    if (kind === 1) client[first] = value
    if (kind === 2) [client[first], client[second]] = [client[second], client[first]]
    return { one, other: kind === 3 ? any : { ...one, id, requestId, client } }
  })

test('two ask the same exactly where the upstream is told the same, but for what is of one caller alone', () => {
  const seen = { same: 0, different: 0 }
  fc.assert(
    fc.property(pair, ({ one, other }) => {
      const question = (of: Asked) =>
        cacheKeyOf(permitFor(of), of.client, of.forwarded) + validatorsOf(of.client)
      const equal = question(one) === question(other)
      expect(equal).toBe(same(without(told(one), OF_ONE_CALLER), without(told(other), OF_ONE_CALLER)))
      seen[equal ? 'same' : 'different']++
    }),
    { numRuns: 5000 },
  )
  expect(Math.min(seen.same, seen.different)).toBeGreaterThan(500)
})

test('no two workspaces, and no two sets of scopes, ever ask the same', () => {
  fc.assert(
    fc.property(asked, asked, (one, other) => {
      fc.pre(one.workspaceId !== other.workspaceId || one.scopes.join() !== other.scopes.join())
      const question = (of: Asked, client: Asked['client']) =>
        cacheKeyOf(permitFor({ ...of, path: one.path }), client, one.forwarded)
      expect(question(one, one.client)).not.toBe(question(other, one.client))
    }),
    { numRuns: 2000 },
  )
})

test.each([
  ['', true],
  ['Accept, Accept-Encoding', true],
  ['Cookie, Authorization, Origin', true],
  ['*', false],
  ['accept,*', false],
  ['X-Postern-Key-Id', false],
  ['Accept , x-POSTERN-key-ID', false],
  ['X-Forwarded-For', false],
  ['x-request-id', false],
  ['traceparent', false],
])('an answer with Vary: %s is one for all who asked the same: %s', (vary, forAll) => {
  expect(fitsKey({ vary })).toBe(forAll)
  expect(fitsKey({ vary: ['Accept', vary] })).toBe(forAll)
})
