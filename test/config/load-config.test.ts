import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/load-config.ts'
import { DEFAULT_ROUTES } from '../../src/config/schema/route-schema.ts'
import { settings } from '../../src/config/settings.ts'
import { configOf, fileWith, mistakesOf, SIGNING_SECRET, signingSecret, withoutPlace } from './examples.ts'

const OTHER_SECRET = signingSecret(2)

function valueAt(config: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((value, name) => (value as Record<string, unknown>)[name], config)
}

describe('names and defaults of settings', () => {
  it.each([
    ['POSTERN_GATEWAY_HOST', 'gateway.host', '::', '127.0.0.1', '127.0.0.1'],
    ['POSTERN_GATEWAY_PORT', 'gateway.port', 8080, '1', 1],
    ['POSTERN_CONSOLE_HOST', 'console.host', '127.0.0.1', '0.0.0.0', '0.0.0.0'],
    ['POSTERN_CONSOLE_PORT', 'console.port', 8081, '0', 0],
    ['POSTERN_CONSOLE_INTERNAL_HOST', 'console.internal.host', '::', '0.0.0.0', '0.0.0.0'],
    ['POSTERN_CONSOLE_INTERNAL_PORT', 'console.internal.port', 8082, '0', 0],
    ['POSTERN_OPS_HOST', 'ops.host', '::', '0.0.0.0', '0.0.0.0'],
    ['POSTERN_OPS_PORT', 'ops.port', 9090, '65535', 65535],
    ['POSTERN_UPSTREAM_URL', 'upstream.url', undefined, 'https://u/base', 'https://u/base'],
    ['POSTERN_UPSTREAM_HEADERS_TIMEOUT_MS', 'upstream.headersTimeoutMs', 10000, '5', 5],
    ['POSTERN_REDIS_URL', 'redis.url', undefined, 'rediss://r:1', 'rediss://r:1'],
    ['POSTERN_KEY_SERVICE_URL', 'keyService.url', undefined, 'http://console:8082', 'http://console:8082'],
    ['POSTERN_KEY_SERVICE_TOKEN', 'keyService.token', undefined, 'a'.repeat(16), ['a'.repeat(16)]],
    [
      'POSTERN_KEYS_SIGNING_SECRETS',
      'keys.signingSecrets',
      [],
      `${OTHER_SECRET}, ${SIGNING_SECRET}`,
      [OTHER_SECRET, SIGNING_SECRET],
    ],
    ['POSTERN_KEYS_MEMORY_TTL_SECONDS', 'keys.memory.ttlSeconds', 30, '1.5', 1.5],
    ['POSTERN_KEYS_STALE_SECONDS', 'keys.staleSeconds', 300, '0', 0],
    ['POSTERN_DATABASE_URL', 'database.url', 'sqlite:postern.db', 'sqlite:/data/k.db', 'sqlite:/data/k.db'],
    ['POSTERN_ADMIN_TOKEN', 'console.adminToken', undefined, 'b'.repeat(16), ['b'.repeat(16)]],
    ['POSTERN_GATEWAY_MAX_IN_FLIGHT', 'gateway.maxInFlight', 1000, '7', 7],
    [
      'POSTERN_GATEWAY_TRUSTED_PROXIES',
      'gateway.trustedProxies',
      [],
      '10.0.0.0/8,::1',
      ['10.0.0.0/8', '::1'],
    ],
    ['POSTERN_DRAIN_DELAY_MS', 'drain.delayMs', 5000, '0', 0],
    ['POSTERN_DRAIN_TIMEOUT_MS', 'drain.timeoutMs', 30000, '1', 1],
    ['POSTERN_LOG_LEVEL', 'log.level', 'info', 'debug', 'debug'],
  ])('%s is %s', (name, path, byDefault, text, value) => {
    const { environment } = settings.find(setting => setting.path === path) ?? {}
    expect(environment).toBe(name)
    // What the gateway needs in any case is given, so the plain default is read without a plane and with opaque keys.
    const bare = loadConfig({
      environment: {},
      flags: new Map([['--keys-format', 'opaque']]),
      planes: [],
    })
    expect(bare.ok && valueAt(bare.config, path)).toEqual(byDefault)
    const others = name === 'POSTERN_KEY_SERVICE_URL' ? { POSTERN_KEY_SERVICE_TOKEN: 'a'.repeat(16) } : {}
    expect(valueAt(configOf({ environment: { ...others, [name]: text } }), path)).toEqual(value)
  })

  it('follow one rule, with few exceptions: POSTERN_ and the path in upper snake case, -- and kebab case', () => {
    for (const { path, environment, flag } of settings) {
      const words = path.split(/\.|(?=[A-Z])/).map(word => word.toLowerCase())
      expect(flag).toBe(`--${words.join('-')}`)
      if (path === 'console.adminToken') expect(environment).toBe('POSTERN_ADMIN_TOKEN')
      else if (path.startsWith('outgoing.')) expect(environment).toBe(words.slice(1).join('_').toUpperCase())
      else expect(environment).toBe(`POSTERN_${words.join('_').toUpperCase()}`)
    }
  })

  it('are unique', () => {
    for (const kind of ['path', 'environment', 'flag'] as const) {
      const names = settings.flatMap(setting =>
        setting.secret
          ? [setting[kind], `${setting[kind]}${{ path: 'File', environment: '_FILE', flag: '-file' }[kind]}`]
          : [setting[kind]],
      )
      expect(new Set(names).size).toBe(names.length)
    }
  })

  it('have these endpoints by default, and their scopes', () => {
    const { routes, scopes } = configOf()
    expect(Object.keys(scopes)).toEqual(['workspace:read', 'files:read'])
    expect(routes.map(({ path, scope, answeredBy, query }) => ({ path, scope, answeredBy, query }))).toEqual([
      { path: '/api/v1/auth', answeredBy: 'gateway' },
      { path: '/api/v1/workspaces/{workspaceId}', scope: 'workspace:read' },
      {
        path: '/api/v1/workspaces/{workspaceId}/files',
        scope: 'files:read',
        query: { limit: { type: 'integer', minimum: 1, maximum: 1000 } },
      },
    ])
  })
})

describe('sources of settings', () => {
  const file = 'gateway: { port: 2 }\nops: { port: 2222 }\ndrain: { delayMs: 22 }'

  it('flags take precedence over environment, file and defaults, in this order', () => {
    const config = configOf({
      flags: { '--gateway-port': '4' },
      environment: { POSTERN_GATEWAY_PORT: '3', POSTERN_OPS_PORT: '3333' },
      file,
    })
    expect([config.gateway.port, config.ops.port, config.drain.delayMs, config.drain.timeoutMs]).toEqual([
      4, 3333, 22, 30000,
    ])
  })

  it('POSTERN_CONFIG names the file, unless a flag names another one', () => {
    const environment = { POSTERN_CONFIG: fileWith(file) }
    expect(configOf({ environment }).gateway.port).toBe(2)
    expect(configOf({ environment, file: 'gateway: { port: 5 }' }).gateway.port).toBe(5)
  })

  it('redis.heartbeats may be given as the contract for key services calls it', () => {
    expect(configOf({ file: 'redis: { beats: false }' }).redis.heartbeats).toBe(false)
    expect(configOf({ environment: { POSTERN_REDIS_BEATS: 'false' } }).redis.heartbeats).toBe(false)
    expect(configOf({ flags: { '--redis-beats': 'false' } }).redis.heartbeats).toBe(false)
  })

  it('an empty variable and an empty entry of the file count as not set', () => {
    const config = configOf({
      environment: { POSTERN_OPS_PORT: '', POSTERN_CONFIG: '' },
      file: 'ops: { port: }\ngateway:',
    })
    expect([config.ops.port, config.gateway.port]).toEqual([9090, 8080])
  })

  it('a list replaces the list of an earlier source, and is not merged with it', () => {
    expect(configOf({ file: 'gateway: { requestHeaders: [Accept] }' }).gateway.requestHeaders).toEqual([
      'Accept',
    ])
  })

  it('routes and scopes are merged by name: an entry is added, replaced or removed', () => {
    const file = `
scopes: { 'members:read': List members, 'files:read': null }
routes:
  members: { path: '/api/v1/workspaces/{workspaceId}/members', scope: members:read }
  workspace: { path: '/w/{workspaceId}' }
  files: null`
    const { routes, scopes } = configOf({ file })
    const { 'files:read': _, ...otherScopes } = configOf().scopes
    expect(scopes).toEqual({ ...otherScopes, 'members:read': 'List members' })
    const { files, ...otherRoutes } = DEFAULT_ROUTES
    expect(routes.map(({ name }) => name)).toEqual([...Object.keys(otherRoutes), 'members'])
    expect(routes).toContainEqual({ name: 'workspace', path: '/w/{workspaceId}' })
    // So does each further layer.
    const environment = { POSTERN_ROUTES: '{ members: null, one: { path: "/one/{workspaceId}" } }' }
    expect(configOf({ file, environment }).routes.map(({ name }) => name)).toEqual([
      ...Object.keys(otherRoutes),
      'one',
    ])
  })

  it('routes may also be a list in which each entry has its name', () => {
    const list = configOf({ file: 'routes: [{ name: one, path: "/one/{workspaceId}" }]' })
    const map = configOf({ file: 'routes: { one: { path: "/one/{workspaceId}" } }' })
    expect(list.routes).toEqual(map.routes)
    expect(list.routes).toHaveLength(Object.keys(DEFAULT_ROUTES).length + 1)
  })

  it('only an existing entry that no other setting needs can be removed', () => {
    expect(mistakesOf({ file: 'routes: { fiels: null }' })).toEqual([
      expect.stringMatching(
        /settings\.yaml:1: routes, at fiels is null, which removes an entry of this name/,
      ),
    ])
    expect(mistakesOf({ file: 'scopes: { "files:read": null }' })).toEqual([
      'routes.files.scope is files:read, which is not in scopes: add it there, or remove the route (routes.files: null)',
    ])
    expect(mistakesOf({ file: 'scopes: { __proto__: null }' })).toHaveLength(1)
  })

  it('variables of other commands are no problem', () => {
    expect(
      mistakesOf({ environment: { POSTERN_CONSOLE_URL: 'http://c', PATH: '/bin', POSTERNX: '1' } }),
    ).toEqual([])
  })
})

describe('problems', () => {
  it('are all reported at once, each by the name that set it', () => {
    const mistakes = mistakesOf({
      flags: { '--gateway-port': 'eighty', '--log-level': 'loud' },
      environment: {
        POSTERN_OPS_PORT: '65536',
        POSTERN_GATEWAY_MAX_INFLIGHT: '5',
        POSTERN_DRAIN_DELAY_MS: '-1',
        POSTERN_REDIS_HEARTBEATS: 'yes',
      },
      file: 'gatway: {}\nupstream: { url: "ftp://x", timeout: 5 }\nkeys: 5\nredis: { commandTimeoutMs: 1.5 }',
    })
    const expected = [
      /^--gateway-port must be a whole number from 0 to 65535$/,
      /^--log-level must be one of trace, debug, info, warn, error, fatal, silent$/,
      /^POSTERN_OPS_PORT must be a whole number from 0 to 65535$/,
      /^POSTERN_GATEWAY_MAX_INFLIGHT is not a setting \(did you mean POSTERN_GATEWAY_MAX_IN_FLIGHT\?\)$/,
      /^POSTERN_DRAIN_DELAY_MS must be a whole number from 0 to 3600000$/,
      /^POSTERN_REDIS_HEARTBEATS must be true or false$/,
      /settings\.yaml:1: gatway is not a setting \(did you mean gateway\?\)$/,
      /settings\.yaml:2: upstream\.timeout is not a setting$/,
      /settings\.yaml:3: keys must hold settings by name$/,
      /settings\.yaml:4: redis\.commandTimeoutMs must be a whole number from 1 to 3600000$/,
    ]
    for (const form of expected)
      expect(
        mistakes.filter(text => form.test(text)),
        String(form),
      ).toHaveLength(1)
    // The environment's good address stands above the file's bad one.
    expect(mistakes).toHaveLength(expected.length)
  })

  it('are reported together with missing settings', () => {
    const environment = {
      POSTERN_UPSTREAM_URL: undefined,
      POSTERN_KEYS_SIGNING_SECRETS: undefined,
      POSTERN_REDIS_URL: undefined,
      POSTERN_GATEWAY_PORT: 'eighty',
      POSTERN_LOG_LEVEL: 'loud',
      POSTERN_CONSOLE_OIDC_ISSUER: 'https://login.example.com',
    }
    const named = mistakesOf({ environment, file: 'gatway: {}' }).map(
      text => withoutPlace(text).split(' ')[0],
    )
    expect(named.sort()).toEqual([
      'POSTERN_GATEWAY_PORT',
      'POSTERN_LOG_LEVEL',
      'console.oidc.clientId',
      'console.publicUrl',
      'gatway',
      'keys.signingSecrets',
      'redis.url,',
      'upstream.url',
    ])
  })

  it.each(settings.map(setting => [setting.path, setting] as const))(
    'are named once: a bad value of %s is not also said to be missing, or to contradict another',
    (path, { environment }) => {
      const good = {
        POSTERN_KEY_SERVICE_URL: 'http://console:8081',
        POSTERN_KEY_SERVICE_TOKEN: 'o'.repeat(16),
        POSTERN_UPSTREAM_TLS_CERT_FILE: '/c.pem',
        POSTERN_UPSTREAM_TLS_KEY_FILE: '/k.pem',
        POSTERN_CONSOLE_WEBHOOK_URL: 'https://hooks.example.com',
        POSTERN_CONSOLE_WEBHOOK_SECRET: OTHER_SECRET,
        POSTERN_CONSOLE_PUBLIC_URL: 'https://console.example.com',
        POSTERN_CONSOLE_OIDC_ISSUER: 'https://login.example.com',
        POSTERN_CONSOLE_OIDC_CLIENT_ID: 'postern',
        POSTERN_LIMITS_POLICIES:
          '[{ name: minute, per: key, scope: "files:read", requests: 1, windowSeconds: 1 }]',
      }
      expect(mistakesOf({ environment: good })).toEqual([])
      // Neither a number nor a list of texts fits any setting.
      const file = path.split('.').reduceRight<unknown>((value, name) => ({ [name]: value }), [{ a: 1 }])
      const mistakes = mistakesOf({
        environment: { ...good, [environment]: undefined },
        file: JSON.stringify(file),
      })
      expect([...new Set(mistakes.map(text => withoutPlace(text).split(/[ ,]/)[0]))]).toEqual([path])
    },
  )

  it('of an unusable file do not make the settings that it may hold missing', () => {
    const environment = { POSTERN_UPSTREAM_URL: undefined, POSTERN_OPS_PORT: 'many' }
    expect(mistakesOf({ environment, file: 'upstream: { url: ' }).map(text => text.split(' ')[0])).toEqual([
      expect.stringMatching(/settings\.yaml:1$/),
      'POSTERN_OPS_PORT',
    ])
  })

  it('are reported in any number', () => {
    const numbers = settings.filter(({ schema }) => schema.type === 'integer')
    expect(numbers.length).toBeGreaterThan(30)
    const environment = Object.fromEntries(numbers.map(setting => [setting.environment, 'many']))
    const names = mistakesOf({ environment }).map(text => text.split(' ')[0])
    expect(names.sort()).toEqual(Object.keys(environment).sort())
  })

  it('between settings are reported by the name that set them, too', () => {
    expect(mistakesOf({ environment: { POSTERN_OPS_PORT: '8081' } })).toEqual([
      'POSTERN_OPS_PORT is 8081, which console.port already uses',
    ])
    expect(mistakesOf({ file: 'console: { port: 8080 }' })).toEqual([
      expect.stringMatching(/settings\.yaml:1: console\.port is 8080, which gateway\.port already uses$/),
    ])
    expect(mistakesOf({ flags: { '--console-internal-port': '8081' } })).toEqual([
      '--console-internal-port is 8081, which console.port already uses',
    ])
    expect(mistakesOf({ flags: { '--console-internal-port': '8080' }, planes: ['gateway'] })).toEqual([])
    expect(mistakesOf({ flags: { '--ops-port': '8080' } })).toEqual([
      expect.stringMatching(/^--ops-port is 8080, which gateway\.port already uses$/),
    ])
    expect(mistakesOf({ environment: { POSTERN_GATEWAY_PORT: '0', POSTERN_OPS_PORT: '0' } })).toEqual([])
  })

  it.each(['POSTERN_GATEWAY_PORT', 'POSTERN_PORT', 'POSTERN_GATEWAY_PORT_8080_TCP', 'POSTERN_CONSOLE_PORT'])(
    'that Kubernetes makes are explained as such: %s=tcp://…',
    name => {
      expect(mistakesOf({ environment: { [name]: 'tcp://10.0.0.1:8080' } })).toEqual([
        expect.stringMatching(new RegExp(`^${name} .*Kubernetes.*enableServiceLinks: false`)),
      ])
    },
  )

  it('in a list name the position of the item', () => {
    expect(
      mistakesOf({ environment: { POSTERN_GATEWAY_TRUSTED_PROXIES: '10.0.0.0/8,10.0.0.0/33' } }),
    ).toEqual(['POSTERN_GATEWAY_TRUSTED_PROXIES, at 1 must be an IP address or a CIDR such as 10.0.0.0/8'])
  })

  it('of a file: invalid YAML, no map, or unreadable', () => {
    expect(mistakesOf({ file: 'gateway: { port: 1' })).toEqual([
      expect.stringMatching(/settings\.yaml:1 is not valid YAML: bad indent$/),
    ])
    expect(mistakesOf({ file: '- 1' })).toEqual([expect.stringMatching(/must hold settings by name/)])
    expect(mistakesOf({ file: 'ops: { port: 1 }\nops: { port: 2 }' })).toEqual([
      expect.stringMatching(/is not valid YAML/),
    ])
    expect(mistakesOf({ environment: { POSTERN_CONFIG: '/nowhere/postern.yaml' } })).toEqual([
      expect.stringMatching(/^\/nowhere\/postern\.yaml cannot be read/),
    ])
  })

  it('name the form of a text, and no length where it has no bounds', () => {
    expect(mistakesOf({ environment: { POSTERN_KEYS_PREFIX: 'A b' } })).toEqual([
      expect.stringContaining('must be a text of the form ^[A-Za-z]'),
    ])
  })

  it('name an address with port 0, to which no connection leads', () => {
    const environment = {
      POSTERN_UPSTREAM_URL: 'http://files:0/base',
      POSTERN_REDIS_URL: 'redis://cache:0',
      POSTERN_KEY_SERVICE_URL: 'https://console:0',
      POSTERN_KEY_SERVICE_TOKEN: 'a'.repeat(16),
      HTTPS_PROXY: 'http://proxy:0',
    }
    const mistakes = mistakesOf({ environment }).map(withoutPlace)
    expect(mistakes.sort()).toEqual([
      'HTTPS_PROXY must not name port 0',
      'POSTERN_KEY_SERVICE_URL must not name port 0',
      'POSTERN_REDIS_URL must not name port 0',
      'POSTERN_UPSTREAM_URL must not name port 0',
    ])
  })

  it.each([
    ['{ type: string }', ['q.type must be one of integer, token, choice']],
    ['{ type: integer, minimum: 1 }', ['q.maximum is missing']],
    [
      '{ type: integer, minimum: -1, maximum: 9 }',
      ['q.minimum must be a whole number from 0 to 999999999999999'],
    ],
    ['{ type: choice, values: [a], x: 1 }', ['q has an unknown field: x']],
    ['{ type: token, maxLength: 5000 }', ['q.maxLength must be a whole number from 1 to 1024']],
  ])('of a value with several forms are those of the form that is meant: %s', (rule, problems) => {
    const file = `routes: { extra: { path: '/x/{workspaceId}', query: { q: ${rule} } } }`
    const mistakes = mistakesOf({ file }).map(text =>
      withoutPlace(text).replace('routes, at extra.query.', ''),
    )
    expect(mistakes).toEqual(problems)
  })

  it('concern only the plane that runs', () => {
    const nothing = {
      POSTERN_UPSTREAM_URL: '',
      POSTERN_REDIS_URL: undefined,
      POSTERN_KEYS_SIGNING_SECRETS: undefined,
    }
    const problems = (planes: readonly ('gateway' | 'console')[]) =>
      mistakesOf({ environment: nothing, planes }).map(text => text.split(' is required')[0])
    expect(problems(['gateway'])).toEqual([
      'keys.signingSecrets',
      'upstream.url',
      'redis.url, keyService.url at least one',
    ])
    expect(problems(['console'])).toEqual(['keys.signingSecrets'])
    expect(problems([])).toEqual([])
  })

  it('name what a key service, a client certificate or opaque keys require', () => {
    expect(mistakesOf({ environment: { POSTERN_KEY_SERVICE_URL: 'http://console:8082' } })).toEqual([
      expect.stringMatching(/^keyService\.token is required with keyService\.url/),
    ])
    expect(mistakesOf({ flags: { '--upstream-tls-cert-file': '/c.pem' } })).toEqual([
      expect.stringMatching(/belong together/),
    ])
    const https = {
      POSTERN_KEY_SERVICE_URL: 'https://console:8082',
      POSTERN_KEY_SERVICE_TOKEN: 'a'.repeat(16),
    }
    expect(mistakesOf({ environment: https, flags: { '--key-service-tls-key-file': '/k.pem' } })).toEqual([
      expect.stringMatching(/^keyService\.tls\.certFile, keyService\.tls\.keyFile belong together/),
    ])
    const http = { ...https, POSTERN_KEY_SERVICE_URL: 'http://console:8082' }
    expect(mistakesOf({ environment: { ...http, POSTERN_KEY_SERVICE_TLS_CA_FILE: '/ca.pem' } })).toEqual([
      expect.stringMatching(/^keyService\.tls has no effect with a plain http: address/),
    ])
    const opaque = { POSTERN_KEYS_FORMAT: 'opaque', POSTERN_KEYS_SIGNING_SECRETS: undefined }
    expect(mistakesOf({ environment: opaque, planes: ['gateway'] })).toEqual([])
    for (const plane of ['gateway', 'console'] as const) {
      expect(mistakesOf({ environment: { ...opaque, POSTERN_KEYS_FORMAT: 'any' }, planes: [plane] })).toEqual(
        [expect.stringMatching(/^keys\.signingSecrets is required/)],
      )
    }
    const console = { planes: ['console'] as const }
    expect(mistakesOf({ ...console, flags: { '--console-internal-tls-cert-file': '/c.pem' } })).toEqual([
      expect.stringMatching(/^console\.internal\.tls\.certFile, .* belong together/),
    ])
    expect(mistakesOf({ ...console, flags: { '--console-internal-tls-client-ca-file': '/ca.pem' } })).toEqual(
      [expect.stringMatching(/^--console-internal-tls-client-ca-file requires TLS/)],
    )
    expect(mistakesOf({ environment: opaque, planes: ['console'] })).toEqual([
      expect.stringMatching(/^keys\.signingSecrets is required for the console/),
    ])
  })
})

describe('a secret from a file', () => {
  const token = 'from-a-file-0123456789'

  it('is named by _FILE, File or -file, and read without its last line break', () => {
    const file = fileWith(`${token}\n`)
    expect(configOf({ environment: { POSTERN_KEY_SERVICE_TOKEN_FILE: file } }).keyService.token).toEqual([
      token,
    ])
    expect(configOf({ environment: { POSTERN_ADMIN_TOKEN_FILE: file } }).console.adminToken).toEqual([token])
    expect(configOf({ flags: { '--key-service-token-file': file } }).keyService.token).toEqual([token])
    expect(configOf({ file: `keyService: { tokenFile: '${file}' }` }).keyService.token).toEqual([token])
  })

  it('may hold several secrets, one a line', () => {
    const file = fileWith(`${OTHER_SECRET}\n${SIGNING_SECRET}\n`)
    const environment = { POSTERN_KEYS_SIGNING_SECRETS: undefined, POSTERN_KEYS_SIGNING_SECRETS_FILE: file }
    expect(configOf({ environment }).keys.signingSecrets).toEqual([OTHER_SECRET, SIGNING_SECRET])
  })

  it('may hold one or all fixed headers for the upstream', () => {
    const one = fileWith('s3cret value\n')
    expect(
      configOf({ file: `upstream: { headers: { X-Token: { file: '${one}' }, X-Plain: a } }` }).upstream
        .headers,
    ).toEqual({
      'X-Token': 's3cret value',
      'X-Plain': 'a',
    })
    const all = fileWith('X-Token: abc\nX-Other: def\n')
    expect(configOf({ environment: { POSTERN_UPSTREAM_HEADERS_FILE: all } }).upstream.headers).toEqual({
      'X-Token': 'abc',
      'X-Other': 'def',
    })
  })

  it('takes precedence over earlier sources, and not over later ones', () => {
    const path = fileWith(token)
    expect(
      configOf({
        file: `keyService: { token: ${'x'.repeat(20)} }`,
        environment: { POSTERN_KEY_SERVICE_TOKEN_FILE: path },
      }).keyService.token,
    ).toEqual([token])
    expect(
      configOf({
        file: `keyService: { tokenFile: '${path}' }`,
        environment: { POSTERN_KEY_SERVICE_TOKEN: 'y'.repeat(20) },
      }).keyService.token,
    ).toEqual(['y'.repeat(20)])
  })

  it('contradicts a value from the same source', () => {
    const environment = { POSTERN_KEY_SERVICE_TOKEN: token, POSTERN_KEY_SERVICE_TOKEN_FILE: fileWith(token) }
    expect(mistakesOf({ environment })).toEqual([
      'POSTERN_KEY_SERVICE_TOKEN is set twice: also as POSTERN_KEY_SERVICE_TOKEN_FILE',
    ])
  })

  it('that cannot be read is one problem, and not a missing setting as well', () => {
    expect(mistakesOf({ environment: { POSTERN_KEY_SERVICE_TOKEN_FILE: '/nowhere/token' } })).toEqual([
      expect.stringMatching(/^POSTERN_KEY_SERVICE_TOKEN_FILE names a file that cannot be read/),
    ])
    const signing = {
      POSTERN_KEYS_SIGNING_SECRETS: undefined,
      POSTERN_KEYS_SIGNING_SECRETS_FILE: '/nowhere/signing',
    }
    expect(mistakesOf({ environment: signing })).toEqual([
      expect.stringMatching(/^POSTERN_KEYS_SIGNING_SECRETS_FILE names a file that cannot be read/),
    ])
    expect(mistakesOf({ file: 'upstream: { headers: { X-T: { file: /nowhere/h } } }' })).toEqual([
      expect.stringMatching(/^upstream\.headers\.X-T names a file that cannot be read/),
    ])
  })

  it('is possible for secrets alone', () => {
    expect(mistakesOf({ environment: { POSTERN_GATEWAY_PORT_FILE: '/x' } })).toEqual([
      'POSTERN_GATEWAY_PORT_FILE is not a setting',
    ])
    expect(mistakesOf({ file: 'gateway: { portFile: /x }' })).toEqual([
      expect.stringMatching(/is not a setting/),
    ])
  })
})
