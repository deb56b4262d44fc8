import { describe, expect, it } from 'vitest'
import { DEFAULT_ROUTES } from '../../src/config/schema/route-schema.ts'
import { configOf, mistakesOf, SIGNING_SECRET, withoutPlace } from './examples.ts'

/** In place of the defaults, so that no other route has a part in what is wrong. */
const NO_DEFAULTS = Object.fromEntries(Object.keys(DEFAULT_ROUTES).map(name => [name, null]))

function mistakesOfRoute({
  name,
  ...route
}: {
  readonly name: string
  readonly [field: string]: unknown
}): string[] {
  return mistakesOf({ environment: { POSTERN_ROUTES: JSON.stringify({ ...NO_DEFAULTS, [name]: route }) } })
}

describe('a header', () => {
  const mistakesIn = (file: string) => mistakesOf({ file }).map(withoutPlace)

  it.each(['Content-Length', 'X-Request-Id', 'X-Forwarded-For', 'x-postern-key-id'])(
    'that the gateway sets itself cannot be added for the upstream: %s',
    name => {
      expect(mistakesIn(`upstream: { headers: { X-Tenant: t, ${name}: x } }`)).toEqual([
        `upstream.headers, at ${name} is a header that the gateway sets itself: remove it`,
      ])
    },
  )

  it('Host is that of upstream.url, while upstream.addresses leads to the servers', () => {
    expect(mistakesIn('upstream: { headers: { Host: files.internal } }')).toEqual([
      'upstream.headers, at Host is a header that the gateway sets itself: name the host in upstream.url, and the servers in upstream.addresses',
    ])
  })

  it('that the gateway sets itself cannot be taken from clients or from the upstream', () => {
    const file = 'gateway: { requestHeaders: [Accept, X-Request-Id], responseHeaders: [X-Request-Id, Vary] }'
    expect(mistakesIn(file)).toEqual([
      'gateway.requestHeaders names X-Request-Id, which the gateway sets itself',
      'gateway.responseHeaders names X-Request-Id, which the gateway sets itself',
    ])
  })
})

describe('a route', () => {
  it('must have coalesce for a response cache to have an effect', () => {
    const environment = { POSTERN_UPSTREAM_CACHE_MAX_BYTES: '1000' }
    expect(mistakesOf({ environment })).toEqual([
      expect.stringMatching(/^POSTERN_UPSTREAM_CACHE_MAX_BYTES has no effect: no route has coalesce/),
    ])
    const routes = JSON.stringify([{ name: 'x', path: '/{workspaceId}', coalesce: true }])
    expect(mistakesOf({ environment: { ...environment, POSTERN_ROUTES: routes } })).toEqual([])
  })

  it('is one entry: path, scope, and optionally another path at the upstream', () => {
    const route = {
      name: 'file',
      summary: 'One file',
      path: '/api/v1/workspaces/{workspaceId}/files/{fileId}',
      upstreamPath: '/files/{workspaceId}/{fileId}',
      scope: 'files:read',
      query: { part: { type: 'choice', values: ['head', 'all'] }, at: { type: 'token', maxLength: 9 } },
    }
    const { name, ...entry } = route
    expect(
      configOf({ environment: { POSTERN_ROUTES: JSON.stringify({ ...NO_DEFAULTS, [name]: entry }) } }).routes,
    ).toEqual([route])
  })

  it.each([
    ['/w', /must have \{workspaceId\} in it/],
    ['/{workspaceID}', /must have \{workspaceId\} in it/],
    ['/{workspaceId}/{workspaceId}', /names one parameter twice/],
  ])('at the upstream must be bound to the key’s workspace: %s', (path, problem) => {
    expect(mistakesOfRoute({ name: 'x', path })).toEqual([expect.stringMatching(problem)])
  })

  it.each([
    ['/other', /upstreamPath must have \{workspaceId\}/],
    ['/{workspaceId}/{fileId}', /upstreamPath has \{fileId\}, which is not in path/],
  ])('at the upstream must be bound to it there, too: %s', (upstreamPath, problem) => {
    expect(mistakesOfRoute({ name: 'x', path: '/{workspaceId}', upstreamPath })).toEqual([
      expect.stringMatching(problem),
    ])
  })

  it('that the gateway answers itself needs no workspace, and has no path at the upstream', () => {
    expect(mistakesOfRoute({ name: 'x', path: '/me', answeredBy: 'gateway' })).toEqual([])
    expect(
      mistakesOfRoute({ name: 'x', path: '/me', answeredBy: 'gateway', upstreamPath: '/{workspaceId}' }),
    ).toEqual([expect.stringMatching(/upstreamPath has no effect/)])
    expect(mistakesOfRoute({ name: 'x', path: '/me', answeredBy: 'gateway', coalesce: true })).toEqual([
      expect.stringMatching(/^routes\.x\.coalesce has no effect/),
    ])
  })

  it.each(['files:write', 'constructor', 'toString', '__proto__', 'files:rea'])(
    'needs a scope that is named under scopes: %s is none',
    scope => {
      expect(mistakesOfRoute({ name: 'x', path: '/{workspaceId}', scope })).toEqual([
        `routes.x.scope is ${scope}, which is not in scopes: add it there, or remove the route (routes.x: null)`,
      ])
    },
  )

  it.each([
    '',
    'w/{workspaceId}',
    '/{workspaceId}/',
    '//{workspaceId}',
    '/{workspaceId}/..',
    '/./{workspaceId}',
    '/{workspaceId}/a b',
    '/{workspaceId}/%41',
    '/{workspaceId}.json',
    '/x{workspaceId}',
    '/{workspaceId}?a=1',
    '/{workspaceId}#a',
    '/{workspaceId};a',
    '/{workspaceId}/*',
    '/{}',
    'http://u/{workspaceId}',
  ])('has a path of plain segments and whole parameters: %j is none', path => {
    expect(mistakesOfRoute({ name: 'x', path })).toHaveLength(1)
    expect(mistakesOfRoute({ name: 'x', path: '/{workspaceId}', upstreamPath: path })).toHaveLength(1)
  })

  it.each([
    ['a parameter with no rule', { limit: {} }],
    ['a rule of an unknown type', { limit: { type: 'number' } }],
    ['a rule without bounds', { limit: { type: 'integer' } }],
    ['a negative bound', { limit: { type: 'integer', minimum: -1, maximum: 5 } }],
    ['a minimum above the maximum', { limit: { type: 'integer', minimum: 6, maximum: 5 } }],
    ['a choice of nothing', { order: { type: 'choice', values: [] } }],
    ['a choice with a delimiter in it', { order: { type: 'choice', values: ['a&b'] } }],
    ['a bound of another type', { limit: { type: 'token', maximum: 5 } }],
    ['a name with a delimiter in it', { 'a&b': { type: 'token', maxLength: 5 } }],
    ['a name that is empty', { '': { type: 'token', maxLength: 5 } }],
    ['a name with brackets, with any rule', { 'a[]': 5 }],
  ])('has query parameters that can be checked: not %s', (_, query) => {
    expect(mistakesOfRoute({ name: 'x', path: '/{workspaceId}', query }).length).toBeGreaterThan(0)
  })

  it('has no unknown field', () => {
    expect(mistakesOfRoute({ name: 'x', path: '/{workspaceId}', scopes: ['files:read'] })).toEqual([
      'POSTERN_ROUTES, at x has an unknown field: scopes (did you mean scope?)',
    ])
  })

  it('has a name of its own', () => {
    const routes = '[{ name: x, path: "/{workspaceId}/{a}" }, { name: x, path: "/{workspaceId}/{a}/b" }]'
    expect(mistakesOf({ environment: { POSTERN_ROUTES: routes } })).toEqual([
      expect.stringMatching(/^POSTERN_ROUTES has two entries of the name x$/),
    ])
  })

  it('matches paths that no other route matches', () => {
    const routes = { x: { path: '/{workspaceId}/{a}' }, y: { path: '/{b}/{workspaceId}' } }
    expect(mistakesOf({ environment: { POSTERN_ROUTES: JSON.stringify(routes) } })).toEqual([
      expect.stringMatching(/two entries that match the same paths: \/\{\}\/\{\}$/),
    ])
  })

  it('is required: an API without routes is a problem', () => {
    for (const routes of ['[]', JSON.stringify(NO_DEFAULTS), '[{ path: "/{workspaceId}" }]', '[a]', 'a']) {
      expect(mistakesOf({ environment: { POSTERN_ROUTES: routes } }), routes).toEqual([
        expect.stringMatching(/^POSTERN_ROUTES must be /),
      ])
    }
  })
})

describe('a scope', () => {
  it('has a name that fits a header, and a description', () => {
    for (const scopes of [
      '{ "a b": x }',
      '{ "a\\"": x }',
      `{ ${'x'.repeat(65)}: x }`,
      '{ "": x }',
      '{ a: "" }',
      '{ a: 5 }',
      '[a]',
    ]) {
      expect(mistakesOf({ file: `scopes: ${scopes}` }), scopes).toHaveLength(1)
    }
  })
})

describe('a signing secret', () => {
  it.each([
    ['31 bytes', Buffer.alloc(31, 9).toString('base64')],
    ['a password', 'correct-horse-battery-staple'],
    ['a long text that is no base64', 'correct horse battery staple correct horse battery staple'],
    ['44 characters with a stray one', `${Buffer.alloc(32).toString('base64').slice(0, -2)}!=`],
  ])('is refused: %s', (_, secret) => {
    for (const text of [secret, `${SIGNING_SECRET},${secret}`]) {
      expect(mistakesOf({ environment: { POSTERN_KEYS_SIGNING_SECRETS: text } })).toEqual([
        expect.stringMatching(/^POSTERN_KEYS_SIGNING_SECRETS, at \d must be base64 of at least 32 bytes/),
      ])
    }
  })

  it.each(['base64', 'base64url'] as const)('of 32 bytes or more is accepted, in %s', alphabet => {
    const secret = Buffer.from(`${SIGNING_SECRET}0000`, 'base64').fill(0xfb, 0, 4).toString(alphabet)
    expect(secret).toMatch(alphabet === 'base64' ? /[+/]/ : /[-_]/)
    expect(configOf({ environment: { POSTERN_KEYS_SIGNING_SECRETS: secret } }).keys.signingSecrets).toEqual([
      secret,
    ])
  })
})

describe('a header that may be forwarded', () => {
  it.each([
    'Authorization',
    'AUTHORIZATION',
    'Cookie',
    'Set-Cookie',
    'Connection',
    'Transfer-Encoding',
    'Host',
    'X-Postern-Workspace-Id',
    'x-postern-anything',
    'X_Postern_Workspace_Id',
    'X.Postern.Key.Id',
    'Server',
    'X-Powered-By',
    'a b',
    'a:',
    '',
  ])('is none of those that never pass: %j', name => {
    for (const direction of ['REQUEST', 'RESPONSE']) {
      const environment = { [`POSTERN_GATEWAY_${direction}_HEADERS`]: JSON.stringify(['Accept', name]) }
      expect(mistakesOf({ environment })).toEqual([
        expect.stringMatching(/_HEADERS, at 1 must be the name of a header that may be copied/),
      ])
    }
  })
})

describe('a fixed header for the upstream', () => {
  it.each([
    '{ "X Bad": a }',
    '{ "X_Bad": a }',
    '{ "X-A:": a }',
    '{ "": a }',
    '{ X-A: "a\\r\\nX: b" }',
    '{ X-A: "é" }',
    '{ X-A: "" }',
    '{ X-A: 5 }',
    '{ X-A: { path: x } }',
  ])('has a lawful name and value: %s has not', headers => {
    expect(mistakesOf({ file: `upstream: { headers: ${headers} }` }).length).toBeGreaterThan(0)
  })
})

describe('an address', () => {
  it.each([
    'ftp://u',
    'u:8080',
    'http://',
    'http://user@u',
    'http://u:p@u',
    'http://u?x=1',
    'http://u#x',
    '//u',
    'file:///etc',
  ])('of the upstream is plain http or https: %s is not', url => {
    expect(mistakesOf({ environment: { POSTERN_UPSTREAM_URL: url } })).toEqual([
      expect.stringMatching(/^POSTERN_UPSTREAM_URL must be an http: or https: address/),
    ])
  })

  it.each([
    '10.0.0.0/33',
    '::/129',
    'fe80::1%eth0',
    'fe80::%eth0/10',
    '[::1]',
    '[2001:db8::]/32',
    '10.0.0.0/',
    '10.0.0/8',
    'proxy.internal',
    '10.0.0.0/8/8',
    '10.0.0.0/-1',
    '10.0.0.0/ 8',
  ])('of a trusted proxy is an IP address or a CIDR: %s is not', cidr => {
    expect(
      mistakesOf({ environment: { POSTERN_GATEWAY_TRUSTED_PROXIES: JSON.stringify([cidr]) } }),
    ).toHaveLength(1)
  })
})

describe('the console’s database', () => {
  it.each(['sqlite:/data/keys.db', 'postgres://postern:s3cret@db:5432/postern', 'postgresql://db/postern'])(
    'may be %s',
    url => {
      expect(configOf({ environment: { POSTERN_DATABASE_URL: url } }).database.url).toBe(url)
    },
  )

  it.each(['mysql://postern:s3cret@db/postern', 'postgres:', 'sqlite:'])(
    'is refused where it is another, without the address in the sentence: %s',
    url => {
      const mistakes = mistakesOf({ environment: { POSTERN_DATABASE_URL: url } })
      expect(mistakes).toEqual([expect.stringMatching(/database\.url|POSTERN_DATABASE_URL/)])
      expect(mistakes.join()).not.toContain('s3cret')
    },
  )
})

describe('a rate limit', () => {
  const minute = { name: 'minute', per: 'workspace', requests: 600, windowSeconds: 60 }
  const mistakesOfPolicies = (...policies: Record<string, unknown>[]) =>
    mistakesOf({ environment: { POSTERN_LIMITS_POLICIES: JSON.stringify(policies) } })

  it('applies to all routes, one route, or the routes of a scope; there is none by default', () => {
    expect(configOf().limits).toEqual({ replicas: 1, policies: [], plans: {} })
    expect(
      mistakesOfPolicies(
        minute,
        { ...minute, name: 'files', per: 'key', route: 'files' },
        { ...minute, name: 'reading', scope: 'files:read' },
      ),
    ).toEqual([])
  })

  it('reports all its problems at once: an unknown route or scope, and a name that is used twice', () => {
    const environment = {
      POSTERN_LIMITS_POLICIES: JSON.stringify([
        { ...minute, route: 'fils' },
        { ...minute, name: 'both', route: 'files', scope: 'files:read' },
        { ...minute, name: 'scope', scope: 'constructor' },
        { ...minute, name: 'unused', scope: 'members:read' },
        minute,
      ]),
      POSTERN_SCOPES: JSON.stringify({ 'files:read': 'x', 'workspace:read': 'x', 'members:read': 'x' }),
    }
    expect(mistakesOf({ environment })).toEqual([
      'limits.policies.minute.route is fils, which is not in routes',
      'limits.policies.both names a route and a scope: set one of the two, or neither for all routes',
      'limits.policies.scope.scope is constructor, which is not in scopes',
      'limits.policies.unused.scope is members:read, which no route requires',
      'limits.policies.minute is the name of two policies',
    ])
  })

  it('are at most 16, which the mistake says', () => {
    const policies = Array.from({ length: 17 }, (_, index) => ({ ...minute, name: `p${index}` }))
    expect(mistakesOfPolicies(...policies)).toEqual([
      expect.stringMatching(/^POSTERN_LIMITS_POLICIES must be a list of at most 16, /),
    ])
  })

  it.each([
    { ...minute, name: 'Minute' },
    { ...minute, name: 'a"b' },
    { ...minute, per: 'address' },
    { ...minute, requests: 0 },
    { ...minute, requests: 1.5 },
    { ...minute, windowSeconds: 0 },
    { ...minute, windowSeconds: 86_401 },
    { ...minute, burst: 5 },
    { name: 'month', per: 'key', requests: 1, window: 'year' },
  ])('has a closed form with bounds: %j is refused', policy => {
    expect(mistakesOfPolicies(policy)).toEqual([expect.stringMatching(/^POSTERN_LIMITS_POLICIES/)])
  })

  it('has a window of some seconds or of the calendar month, and not both', () => {
    const { windowSeconds, ...unbounded } = minute
    const problem = 'must have either windowSeconds or window: month'
    expect(mistakesOfPolicies({ ...unbounded, window: 'month' })).toEqual([])
    for (const policy of [unbounded, { ...unbounded, windowSeconds, window: 'month' }]) {
      expect(mistakesOfPolicies(policy)).toEqual([`limits.policies.minute ${problem}`])
    }
  })

  it('is one of at most 16: each costs metric series and a command', () => {
    const named = (count: number) =>
      Array.from({ length: count }, (_, index) => ({ ...minute, name: `n${index}` }))
    expect(mistakesOfPolicies(...named(16))).toEqual([])
    expect(mistakesOfPolicies(...named(17))).toHaveLength(1)
  })
})

describe('a plan', () => {
  const minute = { name: 'minute', per: 'workspace', requests: 600, windowSeconds: 60 }
  const mistakesOfPlans = (plans: Record<string, unknown>) =>
    mistakesOf({ environment: { POSTERN_LIMITS_PLANS: JSON.stringify(plans) } })

  it('that has another form is a mistake that says what a plan has', () => {
    const minute = { name: 'minute', per: 'ip', requests: 'many' }
    expect(
      mistakesOfPlans({ free: null, gold: [], pro: { policies: 5 }, team: { policies: [minute] } }),
    ).toEqual([
      'POSTERN_LIMITS_PLANS, at free must be an object with policies',
      'POSTERN_LIMITS_PLANS, at gold must be an object with policies',
      'POSTERN_LIMITS_PLANS, at pro.policies must be a list of at most 16, each of it an object with name, per, requests, optionally with route, scope, windowSeconds, window',
      'POSTERN_LIMITS_PLANS, at team.policies.0.per must be one of workspace, key',
      'POSTERN_LIMITS_PLANS, at team.policies.0.requests must be a whole number from 1 to 1000000000',
    ])
  })

  it('has policies of its own, or none, which may have the names of those of other plans', () => {
    const month = { name: 'month', per: 'workspace', requests: 1_000, window: 'month' }
    const plans = {
      free: { policies: [minute, month] },
      business: { policies: [minute] },
      all: { policies: [] },
    }
    expect(mistakesOfPlans(plans)).toEqual([])
    expect(configOf({ environment: { POSTERN_LIMITS_PLANS: JSON.stringify(plans) } }).limits.plans).toEqual(
      plans,
    )
  })

  it('reports all problems of its policies at once, with their paths', () => {
    const plans = {
      free: { policies: [{ ...minute, route: 'fils' }, minute] },
      business: {
        policies: [
          { ...minute, window: 'month' },
          { ...minute, name: 'x', scope: 'y' },
        ],
      },
    }
    expect(mistakesOfPlans(plans)).toEqual([
      'limits.plans.free.policies.minute.route is fils, which is not in routes',
      'limits.plans.free.policies.minute is the name of two policies',
      'limits.plans.business.policies.minute must have either windowSeconds or window: month',
      'limits.plans.business.policies.x.scope is y, which is not in scopes',
    ])
  })

  it('is one of at most 32, with at most 16 policies', () => {
    const named = <T>(count: number, entry: (name: string) => T) =>
      Array.from({ length: count }, (_, index) => entry(`n${index}`))
    const plansOf = (count: number) =>
      Object.fromEntries(named(count, name => [name, { policies: [minute] }]))
    const policiesOf = (count: number) => ({
      free: { policies: named(count, name => ({ ...minute, name })) },
    })
    expect([plansOf(32), policiesOf(16)].map(mistakesOfPlans)).toEqual([[], []])
    expect([plansOf(33), policiesOf(17)].map(plans => mistakesOfPlans(plans).length)).toEqual([1, 1])
  })

  it.each([
    [{ Free: { policies: [] } }, 'with names of the form ^[a-z][a-z0-9-]{0,31}$, at most 32 of them'],
    [{ free: {} }, 'free.policies is missing'],
    [{ free: { polices: [] } }, 'has an unknown field: polices (did you mean policies?)'],
    [{ free: { policies: [{ ...minute, request: 1 }] } }, 'unknown field: request (did you mean requests?)'],
    [{ free: { policies: [{ ...minute, requests: 0 }] } }, 'free.policies.0.requests'],
  ])('has a closed form with bounds: %j is refused', (plans, problem) => {
    expect(mistakesOfPlans(plans).join()).toContain(problem)
  })
})
