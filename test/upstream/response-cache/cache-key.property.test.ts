import fc from 'fast-check'
import { expect, test } from 'vitest'
import { authorize, type Permit } from '../../../src/domain/authorize.ts'
import { compileRoutes, matchRoute } from '../../../src/domain/route/route.ts'
import { compileRequestHeaders } from '../../../src/upstream/request-headers.ts'
import {
  compileCacheKey,
  fitsKey,
  OWN_VALIDATORS,
  validatorKey,
  variesByValidator,
  withValidators,
} from '../../../src/upstream/response-cache/cache-key.ts'
import { exampleGrant } from '../../domain/examples.ts'

const FORWARDED = ['Accept', 'accept-language', 'If-None-Match', 'If-Modified-Since', 'traceparent', 'X-A']
const ROUTES = compileRoutes([
  { name: 'one', path: '/w/{workspaceId}', coalesce: true },
  { name: 'two', path: '/w/{workspaceId}/f/{file}', coalesce: true },
])
const cacheKeyOf = compileCacheKey(FORWARDED)
const headersOf = compileRequestHeaders(FORWARDED, { 'x-service-token': 'fixed' })
/** Repeated here on purpose: the headers in which requests with the same key may differ. */
const PER_CALLER_FIELDS = ['x-request-id', 'x-postern-key-id', 'x-forwarded-for', 'traceparent']

/** Few values, so that requests often match, and values that could be confused without a separator. */
const text = fc.constantFrom('', 'a', 'b', 'a:b', ':', ',', 'files:read', ' ')
const field = fc.option(text, { nil: undefined })
const requests = fc.record({
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
    // Not forwarded, so it must not matter.
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
type Request = typeof requests extends fc.Arbitrary<infer Value> ? Value : never

const SAMPLE: Request = {
  workspaceId: 'a',
  scopes: [],
  id: 'key_1',
  path: '',
  client: {
    accept: undefined,
    'accept-language': undefined,
    'x-a': undefined,
    'if-none-match': undefined,
    'if-modified-since': undefined,
    traceparent: undefined,
    cookie: undefined,
  },
  requestId: '',
  forwarded: { for: '', host: '', proto: 'http' },
}

function permitFor({ workspaceId, scopes, id, path }: Request): Permit {
  const match = matchRoute(ROUTES, `/w/${workspaceId}${path}`)
  if (match === null) throw new Error('No route')
  const grant = exampleGrant({
    id,
    workspaceId,
    scopes,
    hint: '',
    expiresAtMs: 1,
  })
  const lookup = { kind: 'found', grant, tier: 'memory' } as const
  const verdict = authorize({ lookup, match, query: '', nowMs: 0, clientAddress: '' })
  if (verdict.kind === 'denied') throw new Error(verdict.reason)
  return verdict.permit
}

/** @returns all that the upstream receives */
function received(one: Request): Record<string, string> {
  const permit = permitFor(one)
  return { ...headersOf(one.client, permit.grant, one), ':target': permit.upstreamTarget }
}

function without(fields: Record<string, string>, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name)))
}

const same = (one: object, other: object) =>
  JSON.stringify(Object.entries(one).sort()) === JSON.stringify(Object.entries(other).sort())

/** Independent requests rarely match, so some pairs differ in one or two fields only. */
const pair = fc
  .record({ one: requests, any: requests, names: fc.tuple(name, name), value: field, kind: fc.nat(3) })
  .map(({ one, any, names: [first, second], value, kind }) => {
    const { id, requestId } = any
    const client = { ...one.client }
    if (kind === 1) client[first] = value
    if (kind === 2) [client[first], client[second]] = [client[second], client[first]]
    return { one, other: kind === 3 ? any : { ...one, id, requestId, client } }
  })

test('two requests have the same key exactly if the upstream receives the same, except per-caller fields', () => {
  const count = { same: 0, different: 0 }
  fc.assert(
    fc.property(pair, ({ one, other }) => {
      const keyOf = (request: Request) =>
        cacheKeyOf(permitFor(request), request.client, request.forwarded) + validatorKey(request.client)
      const equal = keyOf(one) === keyOf(other)
      expect(equal).toBe(
        same(without(received(one), PER_CALLER_FIELDS), without(received(other), PER_CALLER_FIELDS)),
      )
      count[equal ? 'same' : 'different']++
    }),
    { numRuns: 5000 },
  )
  expect(Math.min(count.same, count.different)).toBeGreaterThan(500)
})

test('requests of different workspaces or scopes never have the same key', () => {
  fc.assert(
    fc.property(requests, requests, (one, other) => {
      fc.pre(one.workspaceId !== other.workspaceId || one.scopes.join() !== other.scopes.join())
      const keyOf = (request: Request, client: Request['client']) =>
        cacheKeyOf(permitFor({ ...request, path: one.path }), client, one.forwarded)
      expect(keyOf(one, one.client)).not.toBe(keyOf(other, one.client))
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
  ['tracestate', false],
  ['X-Postern-Assertion', false],
])('a response with Vary: %s fits all requests with the same key: %s', (vary, fits) => {
  expect(fitsKey({ vary })).toBe(fits)
  expect(fitsKey({ vary: ['Accept', vary] })).toBe(fits)
})

test.each([
  [undefined, false],
  ['Accept', false],
  ['if-none-match', true],
  ['Accept, If-Modified-Since', true],
])('a response with Vary: %s is for requests with the same validators only: %s', (vary, varies) => {
  expect(variesByValidator({ vary })).toBe(varies)
  expect(fitsKey({ vary: undefined })).toBe(true)
})

test('a key tells workspaces, scopes and missing fields apart where the path does not', () => {
  const routes = compileRoutes([{ name: 'own', path: '/own', coalesce: true }])
  const keyOf = (workspaceId: string, scopes: string[], client: Record<string, string> = {}) => {
    const match = matchRoute(routes, '/own')
    if (match === null) throw new Error('No route')
    const grant = { ...permitFor(SAMPLE).grant, workspaceId, scopes }
    const lookup = { kind: 'found', grant, tier: 'memory' } as const
    const verdict = authorize({ lookup, match, query: '', nowMs: 0, clientAddress: '' })
    if (verdict.kind === 'denied') throw new Error(verdict.reason)
    return cacheKeyOf(verdict.permit, client, { for: '', proto: 'http', host: 'h' })
  }
  const keys = [
    ...[keyOf('a', ['a', 'b']), keyOf('b', ['a', 'b']), keyOf('a', ['ab'])],
    ...[keyOf('a', ['ab'], { accept: 'undefined' }), keyOf('a', ['ab'], { accept: '' })],
  ]
  expect(new Set(keys).size).toBe(keys.length)
})

test('the gateway’s own validators replace the client’s, and have a key of their own', () => {
  const headers = { accept: '*/*', 'if-none-match': '"1"', 'if-modified-since': 'd' }
  expect(withValidators(headers, { 'if-none-match': '"7"' })).toEqual({
    accept: '*/*',
    'if-none-match': '"7"',
  })
  const clients = [{}, { 'if-none-match': 'own' }, { 'if-modified-since': '' }].map(validatorKey)
  expect(new Set([...clients, OWN_VALIDATORS]).size).toBe(4)
})
