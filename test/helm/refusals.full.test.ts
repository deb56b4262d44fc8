import { describe, expect, it } from 'vitest'
import { MINIMAL, render, type Values } from '../support/chart.ts'
import { HELM, has } from '../support/tools.ts'

const config = (more: object) => ({ ...MINIMAL, config: { ...MINIMAL.config, ...more } })
const gateway = (more: object) => ({ ...MINIMAL, gateway: more })
const consoleOn = (more: object = {}) => ({ ...MINIMAL, console: { enabled: true, ...more } })
const pod = (more: object) => ({ ...MINIMAL, pod: more })
const AUTOSCALING = { enabled: true }
const OF_TLS = { existingSecret: 'internal-tls' }

/** What is wrong, what is said of it, and, in that, what to set. */
const CONTRADICTIONS: readonly (readonly [string, Values, string])[] = [
  ['nothing at all', {}, 'config.upstream.url is missing: set it to the address'],
  [
    'nobody who knows keys',
    { config: MINIMAL.config },
    'set secrets.redis.url.existingSecret or config.redis.url',
  ],
  ['no plane', gateway({ enabled: false }), 'set one of them to true'],
  [
    'an admin token in values',
    { ...consoleOn(), config: { ...MINIMAL.config, console: { adminToken: 'a-token-of-some-length' } } },
    'set secrets.console.adminToken.existingSecret',
  ],
  [
    'the secret at the provider in values',
    { ...consoleOn(), config: { ...MINIMAL.config, console: { oidc: { clientSecret: 'hunter2' } } } },
    'set secrets.console.oidc.clientSecret.existingSecret',
  ],
  [
    'a provider that nobody could be sent back from',
    { ...consoleOn(), config: { ...MINIMAL.config, console: { oidc: { issuer: 'https://login' } } } },
    'set config.console.oidc.clientId',
  ],
  [
    'a client of no provider',
    { ...consoleOn(), config: { ...MINIMAL.config, console: { oidc: { clientId: 'postern' } } } },
    'set config.console.oidc.issuer',
  ],
  [
    'a client authority at the console, and gateways without a certificate',
    {
      ...consoleOn(),
      secrets: {
        ...MINIMAL.secrets,
        console: { internal: { tls: { certFile: OF_TLS, keyFile: OF_TLS, clientCaFile: OF_TLS } } },
      },
    },
    'set certFile and keyFile below secrets.keyService.tls',
  ],
  [
    'a client authority at a listener without TLS',
    {
      ...consoleOn(),
      secrets: { ...MINIMAL.secrets, console: { internal: { tls: { clientCaFile: OF_TLS } } } },
    },
    'set certFile and keyFile below secrets.console.internal.tls',
  ],
  [
    'half a client certificate for the key service',
    { ...MINIMAL, secrets: { ...MINIMAL.secrets, keyService: { tls: { certFile: OF_TLS } } } },
    'set both below secrets.keyService.tls',
  ],
  [
    'a port of the internal listener that is taken',
    { ...consoleOn(), config: { ...MINIMAL.config, console: { internal: { port: 8081 } } } },
    'config.console.port and config.console.internal.port are both 8081',
  ],
  [
    'a route from outside to the internal listener',
    consoleOn({
      httpRoute: {
        enabled: true,
        parentRefs: [{ name: 'public' }],
        rules: [{ backendRefs: [{ name: 'acme-postern-console-internal', port: 8082 }] }],
      },
    }),
    'leave backendRefs out',
  ],
  [
    'a signing secret in values',
    config({ keys: { signingSecrets: ['c2VjcmV0'] } }),
    'set secrets.keys.signingSecrets.existingSecret',
  ],
  [
    'a password in an address',
    { config: { ...MINIMAL.config, redis: { url: 'redis://:hunter2@redis:6379' } } },
    'config.redis.url holds a password, and values are no place for secrets',
  ],
  [
    'a password in the query of an address',
    {
      ...consoleOn(),
      config: { ...MINIMAL.config, database: { url: 'postgres://db/postern?password=hunter2' } },
    },
    'set secrets.database.url.existingSecret',
  ],
  [
    'the value of a header',
    config({ upstream: { url: 'http://w', headers: { 'X-Service-Token': 'hunter2' } } }),
    'set secrets.upstream.headers.X-Service-Token.existingSecret',
  ],
  [
    'a secret in the environment',
    pod({ extraEnv: [{ name: 'POSTERN_REDIS_PASSWORD', value: 'hunter2' }] }),
    'set secrets.redis.password.existingSecret',
  ],
  [
    'one secret in two places',
    config({ redis: { url: 'redis://redis' } }),
    'secrets.redis.url and config.redis.url say the same thing twice: leave one of them out',
  ],
  [
    'one secret in two files',
    config({ redis: { urlFile: '/vault/redis' } }),
    'secrets.redis.url and config.redis.urlFile say the same thing twice',
  ],
  [
    'no signing secret, and none to be made',
    { ...MINIMAL, generatedSecret: { enabled: false } },
    'set secrets.keys.signingSecrets.existingSecret',
  ],
  [
    'a key service without its token',
    config({ keyService: { url: 'https://keys.example' } }),
    'set secrets.keyService.token.existingSecret',
  ],
  [
    'two kinds of Redis',
    config({ redis: { cluster: { urls: ['redis-0:6379'] } } }),
    'redis.url and redis.cluster are different kinds of Redis: set one of them',
  ],
  [
    'half of Sentinel',
    { config: { ...MINIMAL.config, redis: { sentinel: { name: 'mymaster' } } } },
    'config.redis.sentinel wants both: set name',
  ],
  [
    'half a client certificate',
    {
      ...MINIMAL,
      secrets: { ...MINIMAL.secrets, upstream: { tls: { certFile: { existingSecret: 'tls' } } } },
    },
    'set both below secrets.upstream.tls, or neither',
  ],
  ['any port', config({ gateway: { port: 0 } }), 'config.gateway.port is 0, which takes any port: set'],
  [
    'one port twice',
    config({ ops: { port: 8080 } }),
    'config.gateway.port and config.ops.port are both 8080: set',
  ],
  [
    'the loopback',
    config({ ops: { host: '127.0.0.1' } }),
    'is not reachable from outside the pod: leave it out',
  ],
  [
    'less time than the drain takes',
    pod({ terminationGracePeriodSeconds: 39 }),
    'set at least 40 (config.drain.delayMs and timeoutMs, and 5 s), or null',
  ],
  [
    'a mount over our own',
    pod({ extraVolumeMounts: [{ name: 'x', mountPath: '/tmp/' }] }),
    'extraVolumeMounts has /tmp, which the chart mounts itself: set another mountPath',
  ],
  [
    'a volume of our own name',
    pod({ extraVolumes: [{ name: 'secrets', emptyDir: {} }] }),
    'set another name',
  ],
  [
    'a route that nobody serves',
    gateway({ httpRoute: { enabled: true } }),
    'set gateway.httpRoute.parentRefs to your Gateway',
  ],
  [
    'a route to the metrics',
    gateway({
      httpRoute: {
        enabled: true,
        parentRefs: [{ name: 'g' }],
        rules: [{ backendRefs: [{ name: 'a-ops' }] }],
      },
    }),
    'probes and metrics are not for the outside, leave backendRefs out',
  ],
  ['an Ingress without a host', gateway({ ingress: { enabled: true } }), 'set gateway.ingress.hosts'],
  [
    'bounds the wrong way round',
    gateway({ autoscaling: { ...AUTOSCALING, minReplicas: 5, maxReplicas: 2 } }),
    'set minReplicas to no more than maxReplicas',
  ],
  [
    'autoscaling by nothing',
    gateway({ autoscaling: { ...AUTOSCALING, targetCPUUtilizationPercentage: null } }),
    'set targetCPUUtilizationPercentage or metrics',
  ],
  [
    'autoscaling by a request that is not made',
    gateway({ autoscaling: AUTOSCALING, resources: { requests: { cpu: null } } }),
    'set gateway.resources.requests.cpu',
  ],
  [
    'two consoles over one file',
    consoleOn({ replicas: 2 }),
    'set console.replicas to 1, or secrets.database.url.existingSecret to the address of a PostgreSQL',
  ],
  [
    'a file that no volume holds',
    { ...consoleOn(), config: { ...MINIMAL.config, database: { url: 'sqlite:/tmp/keys.db' } } },
    'would be lost: leave it out, or put it below /var/lib/postern/',
  ],
  [
    'two monitors of the same pods',
    { ...MINIMAL, monitoring: { podMonitor: { enabled: true }, serviceMonitor: { enabled: true } } },
    'set one of them to enabled: false',
  ],
  [
    'boards for an operator that are not made',
    { ...MINIMAL, monitoring: { dashboards: { grafanaOperator: { enabled: true } } } },
    'set monitoring.dashboards.enabled to true',
  ],
  [
    'an alert that there is not',
    { ...MINIMAL, monitoring: { prometheusRule: { overrides: { PosternNone: { for: '1m' } } } } },
    'names the alert PosternNone, which there is not',
  ],
]

describe.skipIf(!has(HELM))('values that contradict each other are refused with what to set', () => {
  it.each(CONTRADICTIONS)('%s', (_, values, sentence) => {
    const { ok, stderr } = render(values)
    expect(ok).toBe(false)
    expect(stderr.replace(/\s+/g, ' ')).toContain(sentence)
  })

  it('all of them at once', () => {
    const { stderr } = render({ ...consoleOn({ replicas: 3 }), ...pod({ terminationGracePeriodSeconds: 1 }) })
    expect(stderr).toContain('console.replicas is 3')
    expect(stderr).toContain('pod.terminationGracePeriodSeconds is 1')
  })

  it('without repeating a secret', () => {
    for (const [, values] of CONTRADICTIONS) expect(render(values).stderr).not.toContain('hunter2')
  })
})

/** What is wrong, and where. */
const UNKNOWN: readonly (readonly [string, Values, string])[] = [
  ['a value that there is not', { replicaCount: 3 }, 'replicaCount'],
  ['one of a plane', gateway({ replica: 3 }), 'replica'],
  ['a setting that there is not', config({ keys: { ttl: 3 } }), 'ttl'],
  ['a section of settings that there is not', config({ quotas: {} }), 'quotas'],
  [
    'a setting of a route that there is not',
    config({ routes: { a: { path: '/a', methods: [] } } }),
    'methods',
  ],
  ['a reference for what is no secret', { ...MINIMAL, secrets: { log: { level: {} } } }, 'log'],
  ['a secret in place of a reference', { ...MINIMAL, secrets: { redis: { password: 'x' } } }, 'password'],
  ['a text for a number', config({ gateway: { port: '8080' } }), 'port'],
  ['a number beyond its bounds', config({ drain: { delayMs: 4_000_000 } }), 'delayMs'],
  ['an address of another kind', config({ upstream: { url: 'ftp://workspaces' } }), 'url'],
  ['a password in the upstream’s address', config({ upstream: { url: 'http://a:b@workspaces' } }), 'url'],
  ['a header that is none', config({ gateway: { requestHeaders: ['X Y'] } }), 'requestHeaders'],
  ['a level that there is not', config({ log: { level: 'loud' } }), 'level'],
  ['the tag latest', { ...MINIMAL, image: { tag: 'latest' } }, 'tag'],
  ['a digest that is none', { ...MINIMAL, image: { digest: 'abc' } }, 'digest'],
  ['a path for a probe', pod({ probes: { liveness: { path: '/' } } }), 'path'],
  ['no replicas', gateway({ replicas: 0 }), 'replicas'],
]

describe.skipIf(!has(HELM))(
  'values that there are not, or that are of another form, are refused by name',
  () => {
    it.each(UNKNOWN)('%s', (_, values, name) => {
      const { ok, stderr } = render(values)
      expect(ok).toBe(false)
      expect(stderr).toMatch(/don't meet the specifications of the schema/)
      expect(stderr).toContain(name)
    })
  },
)

describe.skipIf(!has(HELM))('values that Helm itself adds', () => {
  it('are taken: a parent chart’s switch and its globals', () => {
    const { ok, stderr } = render({
      ...MINIMAL,
      enabled: true,
      tags: { x: true },
      global: { domain: 'example' },
    })
    expect(stderr).toBe('')
    expect(ok).toBe(true)
  })
})

it.skipIf(!has(HELM))('a Kubernetes that is too old is refused', () => {
  const { ok, stderr } = render(MINIMAL, { args: ['--kube-version', '1.29.9'] })
  expect(ok).toBe(false)
  expect(stderr).toContain('>=1.30')
})
