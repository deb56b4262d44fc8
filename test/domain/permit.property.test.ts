import fc from 'fast-check'
import { expect, it } from 'vitest'
import { authorize, type Permit } from '../../src/domain/authorize.ts'
import type { KeyRecord } from '../../src/domain/key/key-record.ts'
import { compileRoutes, matchRoute } from '../../src/domain/route/route.ts'
import { exampleRecord, grantOf, NOW_MS } from './examples.ts'

/**
 * For every request, key and time: a permit is for one of the configured endpoints, at the
 * key's own workspace, with a key that is usable at that time and has the scope. An independent implementation.
 */
const ROUTES = compileRoutes([
  { name: 'auth', path: '/api/v1/auth', answeredBy: 'gateway' },
  { name: 'workspace', path: '/api/v1/workspaces/{workspaceId}', scope: 'workspace:read' },
  {
    name: 'files',
    path: '/api/v1/workspaces/{workspaceId}/files',
    scope: 'files:read',
    query: { limit: { type: 'integer', minimum: 1, maximum: 1000 } },
  },
  {
    name: 'file',
    path: '/api/v1/workspaces/{workspaceId}/files/{fileId}',
    scope: 'files:read',
    upstreamPath: '/files/{fileId}/of/{workspaceId}',
  },
])
const WORKSPACES = ['ws_A', 'ws_B', 'ws_a', 'files', '...', '~']

/** Every target that may reach the upstream for a key of this workspace. */
function lawfulTargets(workspaceId: string): Record<string, RegExp> {
  const id = workspaceId.replaceAll('.', '\\.')
  return {
    auth: /^\/api\/v1\/auth$/,
    workspace: new RegExp(`^/api/v1/workspaces/${id}$`),
    files: new RegExp(`^/api/v1/workspaces/${id}/files(\\?limit=([1-9][0-9]{0,2}|1000))?$`),
    file: new RegExp(`^/files/(?!\\.{1,2}/)[A-Za-z0-9._~-]{1,128}/of/${id}$`),
  }
}

const workspaceId = fc.constantFrom(...WORKSPACES)
const validPath = fc
  .tuple(workspaceId, fc.constantFrom('', '/files', '/files/f_1', '/files/a.b'))
  .map(([id, rest]) => `/api/v1/workspaces/${id}${rest}`)
const trick = fc.constantFrom(
  ...[
    '/',
    '//',
    '.',
    '..',
    '/..',
    '/../',
    '/./',
    '%2e',
    '%2E%2e',
    '%252e',
    '%25%32%65',
    '%2f',
    '%2F',
    '%252f',
    '\\',
    '%5c',
  ],
  ...[
    ';',
    ';x=1',
    '#',
    '?',
    '%3f',
    '%23',
    '%3b',
    '%00',
    '\0',
    '%0d%0a',
    ' ',
    '%20',
    '+',
    '%',
    '%2',
    '%zz',
    '*',
    ',',
    '@',
    ':',
  ],
  ...[
    'ws_B',
    '/ws_B',
    '../ws_B',
    '%2fws_B',
    'WS_A',
    '%77s_A',
    'files',
    '/files',
    '/auth',
    'é',
    'ａ',
    '\u212a',
    '\u200b',
    '%c0%af',
  ],
)
const spoil = fc.record({ at: fc.double({ min: 0, max: 1, noNaN: true }), cut: fc.nat(6), trick })

function spoiled(path: string, { at, cut, trick }: { at: number; cut: number; trick: string }): string {
  const start = Math.floor(at * (path.length + 1))
  return path.slice(0, start) + trick + path.slice(start + cut)
}

function inOtherCase(path: string, at: number): string {
  const index = Math.floor(at * path.length)
  return path.slice(0, index) + path.charAt(index).toUpperCase() + path.slice(index + 1)
}

function percentEncoded(path: string, at: number): string {
  const index = Math.floor(at * (path.length - 1))
  return `${path.slice(0, index)}%${path.charCodeAt(index).toString(16)}${path.slice(index + 1)}`
}

const where = fc.double({ min: 0, max: 1, noNaN: true })
const path = fc.oneof(
  { weight: 3, arbitrary: validPath },
  { weight: 1, arbitrary: fc.constant('/api/v1/auth') },
  { weight: 4, arbitrary: fc.tuple(validPath, spoil).map(([valid, change]) => spoiled(valid, change)) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(validPath, fc.array(spoil, { minLength: 2, maxLength: 3 }))
      .map(([valid, changes]) => changes.reduce(spoiled, valid)),
  },
  { weight: 1, arbitrary: fc.tuple(validPath, where).map(([valid, at]) => inOtherCase(valid, at)) },
  { weight: 1, arbitrary: fc.tuple(validPath, where).map(([valid, at]) => percentEncoded(valid, at)) },
  { weight: 1, arbitrary: fc.string({ unit: 'binary-ascii' }).map(text => `/${text}`) },
)
const query = fc.oneof(
  { weight: 4, arbitrary: fc.constant('') },
  { weight: 3, arbitrary: fc.integer({ min: -1, max: 1002 }).map(limit => `limit=${limit}`) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(fc.constantFrom('limit=5', 'limit=1000', 'limit=5&limit=6'), spoil)
      .map(([text, change]) => spoiled(text, change)),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom('limit=05', 'limit=+5', 'limit=5.0', 'limit=%35', 'LIMIT=5', '&', 'limit'),
  },
  { weight: 1, arbitrary: fc.webQueryParameters() },
)
/** Instants at, just before and just after now, to find off-by-one errors. */
const nearNow = fc.integer({ min: -2, max: 2 }).map(offset => NOW_MS + offset)
const scopes = fc.subarray(['files:read', 'workspace:read', 'files:readx', 'FILES:READ', '*'])
const record: fc.Arbitrary<KeyRecord> = fc
  .record({
    workspaceId,
    scopes: fc.oneof({ weight: 2, arbitrary: fc.constant(['files:read', 'workspace:read']) }, scopes),
    expiresAtMs: fc.oneof({ weight: 2, arbitrary: fc.constant(NOW_MS + 9e9) }, nearNow),
    revokedAtMs: fc.oneof({ weight: 4, arbitrary: fc.constant(null) }, nearNow, fc.constant(0)),
    allowedCidrs: fc.constantFrom([], [], ['192.0.2.0/24'], ['198.51.100.0/24']),
    suspendedAtMs: fc.oneof({ weight: 4, arbitrary: fc.constant(null) }, nearNow, fc.constant(0)),
    replacedBy: fc.constantFrom(null, 'key_2'),
  })
  .map(exampleRecord)

const CLIENT = '192.0.2.7'

function permitOf(record: KeyRecord, path: string, query: string, nowMs: number): Permit | null {
  const match = matchRoute(ROUTES, path)
  if (match === null) return null
  const verdict = authorize({
    lookup: { kind: 'found', grant: grantOf(record), tier: 'redis' },
    match,
    query,
    nowMs,
    clientAddress: CLIENT,
  })
  return verdict.kind === 'permitted' ? verdict.permit : null
}

/** Repeated here on purpose, not read from the routes. */
const SCOPES: Readonly<Record<string, string>> = {
  workspace: 'workspace:read',
  files: 'files:read',
  file: 'files:read',
}

it('permits only configured endpoints of the key’s own workspace, for a usable key with the scope', () => {
  const seen = { permitted: new Map<string, number>(), denied: 0 }
  fc.assert(
    fc.property(record, path, query, nearNow, (record, path, query, nowMs) => {
      const permit = permitOf(record, path, query, nowMs)
      if (permit === null) {
        seen.denied++
        return
      }
      const { route, upstreamTarget } = permit
      seen.permitted.set(route.name, (seen.permitted.get(route.name) ?? 0) + 1)
      expect(upstreamTarget).toMatch(lawfulTargets(record.workspaceId)[route.name] ?? /$^/)
      // The requested workspace is the key's own, byte for byte.
      if (route.name !== 'auth') expect(path.split('/')[4]).toBe(record.workspaceId)
      // Any server that reads the target by the URL standard reads the same bytes.
      const read = new URL(upstreamTarget, 'http://upstream')
      expect(read.pathname + read.search).toBe(upstreamTarget)
      expect(read.host).toBe('upstream')
      expect(record.revokedAtMs).toBeNull()
      expect(record.suspendedAtMs).toBeNull()
      expect(record.allowedCidrs).not.toEqual(['198.51.100.0/24'])
      expect(nowMs).toBeLessThan(record.expiresAtMs)
      const scope = SCOPES[route.name]
      if (scope !== undefined) expect(record.scopes).toContain(scope)
    }),
    { numRuns: 30_000 },
  )
  // The property is meaningful only if each endpoint often permits and often denies.
  expect(seen.denied).toBeGreaterThan(3000)
  for (const { name } of ROUTES) expect(seen.permitted.get(name), name).toBeGreaterThan(10)
})

it('the plain path of the key’s own workspace is permitted', () => {
  fc.assert(
    fc.property(workspaceId, fc.integer({ min: 1, max: 1000 }), (workspaceId, limit) => {
      const record = exampleRecord({ workspaceId })
      const path = `/api/v1/workspaces/${workspaceId}/files`
      expect(permitOf(record, path, `limit=${limit}`, NOW_MS)?.upstreamTarget).toBe(`${path}?limit=${limit}`)
    }),
  )
})
