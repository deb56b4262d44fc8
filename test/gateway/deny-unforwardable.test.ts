import { describe, expect, test } from 'vitest'
import { authorize, type Permit } from '../../src/domain/authorize.ts'
import { mintSecret } from '../../src/domain/key/secret.ts'
import { compileRoutes, matchRoute } from '../../src/domain/route/route.ts'
import { denyUnforwardable } from '../../src/gateway/check-mode.ts'
import { exampleRecord, grantOf, SIGNING_KEY } from '../domain/examples.ts'

const KEY = mintSecret('wsk_', Buffer.alloc(32, 3), SIGNING_KEY).reveal()
const PATH = '/api/v1/workspaces/ws_1'
const ROUTES = compileRoutes([
  {
    name: 'workspace',
    path: '/api/v1/workspaces/{workspaceId}',
    query: {
      limit: { type: 'integer', minimum: 1, maximum: 9 },
      sort: { type: 'choice', values: ['', 'name'] },
    },
  },
])

function permitFor(query: string): Permit {
  const match = matchRoute(ROUTES, PATH)
  if (match === null) throw new Error('The route does not match')
  const lookup = {
    kind: 'found',
    grant: grantOf(exampleRecord({ workspaceId: 'ws_1' })),
    tier: 'memory',
  } as const
  const verdict = authorize({ lookup, match, query, nowMs: 0, clientAddress: '127.0.0.1' })
  if (verdict.kind !== 'permitted') throw new Error(verdict.reason)
  return verdict.permit
}

function denialOf(target: string, fields: readonly string[] = []): string | undefined {
  const query = target.split('?')[1] ?? ''
  const rawHeaders = ['Authorization', `Bearer ${KEY}`, 'X-Original-URI', target, ...fields]
  const denial = denyUnforwardable({ proxy: 'nginx', prefix: 'wsk_' }, rawHeaders, permitFor(query), target)
  expect(denial?.reason ?? 'invalid_query').toBe('invalid_query')
  return denial?.detail
}

describe('a permitted target is forwarded by the proxy as it is', () => {
  test.each(['', '?limit=5', '?limit=5&sort=name', '?sort=name&limit=5', '?sort='])('%s', query => {
    expect(denialOf(PATH + query)).toBeUndefined()
  })
})

describe('a target that the gateway itself would rebuild in another form is refused', () => {
  test.each(['?', '?sort'])('%s', query => {
    expect(denialOf(PATH + query)).toMatch(/Leave out the "\?"/)
  })
})

describe('a header that the proxy would pass on with a key in it is refused', () => {
  test.each([
    ['Cookie', `session=${KEY}`],
    ['X-Api-Key', KEY],
    ['Referer', `https://example.com/?key=${KEY}`],
    [KEY, 'in a name'],
    ['X-Original-Url', KEY],
  ])('%s', (name, value) => {
    expect(denialOf(PATH, [name, value])).toMatch(/Authorization header only/)
  })
})

describe("a header that a server could take for one of the gateway's own is refused", () => {
  test.each([
    'X_Postern_Workspace_Id',
    'X.Postern.Key.Id',
    'x-postern_scopes',
    'X-Postern-Key.Id',
    'x_postern-assertion',
  ])('%s', name => {
    expect(denialOf(PATH, [name, 'ws_2'])).toMatch(/X-Postern/)
  })

  test.each(['X-Postern-Workspace-Id', 'X-Posterns_x', 'X_Request_Id', 'My_X-Postern-Key-Id'])(
    '%s is not: the proxy replaces it',
    name => {
      expect(denialOf(PATH, [name, 'ws_2'])).toBeUndefined()
    },
  )
})
