import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { compileRoutes, parseQuery, type Route } from '../../src/domain/route/route.ts'
import { threadCpuMs } from '../support/cpu-time.ts'
import { routeNamed } from './examples.ts'

const FILES = routeNamed('files')

function routeWith(query: NonNullable<Parameters<typeof compileRoutes>[0][number]['query']>): Route {
  const [route] = compileRoutes([{ name: 'x', path: '/{workspaceId}', query }])
  if (route === undefined) throw new Error('unreachable')
  return route
}

describe('a valid query', () => {
  it.each([
    ['', ''],
    ['limit=1', '?limit=1'],
    ['limit=1000', '?limit=1000'],
    ['limit=999', '?limit=999'],
  ])('%j reaches the upstream as %j', (query, upstreamQuery) => {
    expect(parseQuery(FILES, query)).toEqual({ ok: true, upstreamQuery })
  })
})

describe('an invalid query is rejected', () => {
  it.each([
    // Q01: one parameter twice
    'limit=1&limit=1000',
    'limit=5&limit=5',
    // Q02: variants of the name
    'limit[]=1',
    'limit[0]=1',
    'limit.x=1',
    'LIMIT=5',
    'Limit=5',
    'limit%00=5',
    'l%69mit=5',
    'limit =5',
    ' limit=5',
    // Q04: range and precision
    'limit=0',
    'limit=1001',
    'limit=9007199254740993',
    'limit=1000000000000000',
    `limit=${'9'.repeat(5000)}`,
    // other forms of a number
    'limit=-1',
    'limit=+1',
    'limit=01',
    'limit=00',
    'limit=1.0',
    'limit=1e2',
    'limit=0x10',
    'limit=1_0',
    'limit= 5',
    'limit=5%20',
    'limit=%35',
    'limit=５',
    'limit=٥',
    'limit=5\n',
    'limit=NaN',
    'limit=Infinity',
    'limit=null',
    // Q05: a parameter within a value
    'limit=5%26workspaceId=ws_B',
    'limit=5&workspaceId=ws_B',
    'limit=5%23',
    'limit=5#x',
    'limit=5;workspaceId=ws_B',
    'limit=5%0d%0aX:1',
    'limit=5=5',
    'limit=5?limit=6',
    // Q07: empty pieces
    '&',
    '&&limit=5',
    'limit=5&',
    'limit',
    'limit=',
    '=5',
    '=',
    '?limit=5',
    // Q08, K08, prototypes
    'a[b][c][d]=1',
    'access_token=x',
    'limit=5&access_token=x',
    '__proto__=1',
    'constructor=1',
    'toString',
    'x=1',
  ])('%j', query => {
    expect(parseQuery(FILES, query).ok).toBe(false)
  })

  it.each(['workspace=ws_B', 'limit=5', '&', 'access_token=x'])(
    'where the endpoint takes none at all: %j',
    query => {
      expect(parseQuery(routeNamed('auth'), query)).toEqual({
        ok: false,
        detail: 'This endpoint takes no query parameters',
      })
    },
  )

  it('with a text that never repeats the input and has no final full stop', () => {
    const canary = fc.stringMatching(/^[a-z]{8,12}$/).map(text => `canary${text}`)
    fc.assert(
      fc.property(
        canary,
        fc.constantFrom('limit=#', '#=1', 'limit=1&#=2', '#', 'limit=1&limit=#'),
        (word, form) => {
          const parsed = parseQuery(FILES, form.replace('#', word))
          expect(parsed.ok).toBe(false)
          expect(parsed.ok ? '' : parsed.detail).not.toMatch(/canary|\.$/)
        },
      ),
    )
  })

  it('without parsing more pairs than the endpoint has parameters', () => {
    const started = threadCpuMs()
    for (let count = 0; count < 100; count++) parseQuery(FILES, 'limit=5&'.repeat(2000))
    expect(threadCpuMs() - started).toBeLessThan(100)
  })
})

describe('an invalid query is rejected with what is allowed', () => {
  const [route] = compileRoutes([
    {
      name: 'r',
      path: '/r',
      query: {
        part: { type: 'choice', values: ['head', 'all'] },
        at: { type: 'token', maxLength: 9 },
        page: { type: 'integer', minimum: 0, maximum: 7 },
      },
    },
  ])
  it.each([
    ['part=x', 'part must be one of head, all'],
    ['at=', 'at must be 1 to 9 characters of A-Z, a-z, 0-9 and "-", ".", "_", "~"'],
    ['page=8', 'page must be a whole number from 0 to 7'],
    ['page=1&page=1', 'page may be given once'],
    ['=1', 'This endpoint takes only these query parameters: part, at, page'],
  ])('?%s', (query, detail) => {
    if (route === undefined) throw new Error('There is a route')
    expect(parseQuery(route, query)).toEqual({ ok: false, detail })
  })
})

describe('the rules for parameters', () => {
  it('accept every whole number within the bounds, and no other', () => {
    fc.assert(
      fc.property(fc.integer({ min: -10, max: 2000 }), number => {
        expect(parseQuery(FILES, `limit=${number}`).ok).toBe(number >= 1 && number <= 1000)
      }),
    )
  })

  it('accept a token of unreserved characters up to its maximum length', () => {
    const route = routeWith({ cursor: { type: 'token', maxLength: 8 } })
    for (const value of ['a', 'A-9._~', '12345678']) {
      expect(parseQuery(route, `cursor=${value}`)).toEqual({ ok: true, upstreamQuery: `?cursor=${value}` })
    }
    for (const value of ['', '123456789', 'a b', 'a%20', 'a+b', 'a/b', 'é', 'a=']) {
      expect(parseQuery(route, `cursor=${value}`).ok, value).toBe(false)
    }
  })

  it('accept one of the choices, exactly as spelled', () => {
    const route = routeWith({ order: { type: 'choice', values: ['asc', 'desc'] } })
    expect(parseQuery(route, 'order=desc')).toEqual({ ok: true, upstreamQuery: '?order=desc' })
    for (const value of ['ASC', 'as', 'asc,desc', '', 'constructor']) {
      expect(parseQuery(route, `order=${value}`).ok, value).toBe(false)
    }
  })

  it('accept several parameters in any order, each at most once', () => {
    const route = routeWith({
      limit: { type: 'integer', minimum: 0, maximum: 10 },
      order: { type: 'choice', values: ['asc', 'desc'] },
    })
    expect(parseQuery(route, 'order=asc&limit=0')).toEqual({ ok: true, upstreamQuery: '?order=asc&limit=0' })
    expect(parseQuery(route, 'limit=0&order=asc&limit=0').ok).toBe(false)
    expect(parseQuery(route, 'limit=0&order=asc&').ok).toBe(false)
    expect(parseQuery(route, 'limit=0&order=asc&x=1').ok).toBe(false)
  })
})
