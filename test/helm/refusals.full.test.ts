import { describe, expect, it } from 'vitest'
import { MINIMAL, render, type Values, WITH_CONSOLE } from '../support/chart.ts'
import { HELM, has } from '../support/tools.ts'

const config = (more: object) => ({ ...MINIMAL, config: { ...MINIMAL.config, ...more } })
const gateway = (more: object) => ({ ...MINIMAL, gateway: more })
const consoleOn = (more: object = {}) => ({ ...MINIMAL, console: { enabled: true, ...more } })
const pod = (more: object) => ({ ...MINIMAL, pod: more })
const AUTOSCALING = { enabled: true }
const OF_TLS = { existingSecret: 'internal-tls' }

/** A contradiction, the values, and part of the error, which names what to set. */
const CONTRADICTIONS: readonly (readonly [string, Values, string])[] = [
  ['no image', { ...MINIMAL, image: {} }, 'set image.repository to its name'],
  ['no values', {}, 'config.upstream.url is missing: set it to the address'],
  [
    'no key service and no Redis',
    { image: MINIMAL.image, config: MINIMAL.config },
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
    'a provider without a public URL to return to',
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
    'remove backendRefs',
  ],
  [
    'a signing secret in values',
    config({ keys: { signingSecrets: ['c2VjcmV0'] } }),
    'set secrets.keys.signingSecrets.existingSecret',
  ],
  [
    'a password in an address',
    { config: { ...MINIMAL.config, redis: { url: 'redis://:hunter2@redis:6379' } } },
    'config.redis.url contains a password, and values must not contain secrets',
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
    'the password of a proxy in the environment',
    pod({ extraEnv: [{ name: 'https_proxy', value: 'http://user:hunter2@proxy:3128' }] }),
    'set secrets.outgoing.httpsProxy.existingSecret',
  ],
  [
    'one secret in two places',
    config({ redis: { url: 'redis://redis' } }),
    'secrets.redis.url and config.redis.url set the same setting: remove one of them',
  ],
  [
    'one secret in two files',
    config({ redis: { urlFile: '/vault/redis' } }),
    'secrets.redis.url and config.redis.urlFile set the same setting',
  ],
  [
    'no signing secret, and none to be made',
    { ...WITH_CONSOLE, generatedSecret: { enabled: false } },
    'set secrets.keys.signingSecrets.existingSecret',
  ],
  [
    'a gateway without the console whose keys it verifies, and without that console’s signing secret',
    { ...MINIMAL, secrets: { redis: MINIMAL.secrets.redis } },
    'set secrets.keys.signingSecrets.existingSecret to the Secret of the console that issues the keys',
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
    'config.redis.sentinel is incomplete: set name',
  ],
  [
    'half a client certificate',
    {
      ...MINIMAL,
      secrets: { ...MINIMAL.secrets, upstream: { tls: { certFile: { existingSecret: 'tls' } } } },
    },
    'set both below secrets.upstream.tls, or neither',
  ],
  ['any port', config({ gateway: { port: 0 } }), 'config.gateway.port is 0, which means any free port: set'],
  [
    'any check port',
    config({ gateway: { check: { port: 0, proxy: 'nginx' } } }),
    'config.gateway.check.port is 0, which means any free port: set',
  ],
  [
    'the check port of another listener',
    config({ gateway: { check: { port: 9090, proxy: 'nginx' } } }),
    'are both 9090: set different ports',
  ],
  [
    'a public check listener',
    gateway({
      httpRoute: {
        enabled: true,
        parentRefs: [{ name: 'edge' }],
        rules: [{ backendRefs: [{ name: 'acme-postern-gateway-check', port: 8083 }] }],
      },
    }),
    'which is only for the proxy of check mode: remove backendRefs',
  ],
  [
    'one port twice',
    config({ ops: { port: 8080 } }),
    'config.gateway.port and config.ops.port are both 8080: set',
  ],
  [
    'the loopback',
    config({ ops: { host: '127.0.0.1' } }),
    'is not reachable from outside the pod: remove it',
  ],
  [
    'a grace period shorter than the drain',
    pod({ terminationGracePeriodSeconds: 39 }),
    'set at least 40 (config.drain.delayMs, config.drain.timeoutMs and 5 s), or null',
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
    'a route without a Gateway',
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
    'probes and metrics must not be public, remove backendRefs',
  ],
  ['an Ingress without a host', gateway({ ingress: { enabled: true } }), 'set gateway.ingress.hosts'],
  [
    'bounds the wrong way round',
    gateway({ autoscaling: { ...AUTOSCALING, minReplicas: 5, maxReplicas: 2 } }),
    'set minReplicas to no more than maxReplicas',
  ],
  [
    'autoscaling by nothing',
    gateway({ autoscaling: { ...AUTOSCALING, targetCPU: null } }),
    'set targetCPU, targetCPUUtilizationPercentage or metrics',
  ],
  [
    'autoscaling by a request that is not made',
    gateway({
      autoscaling: { ...AUTOSCALING, targetCPUUtilizationPercentage: 70 },
      resources: { requests: { cpu: null } },
    }),
    'set gateway.resources.requests.cpu',
  ],
  [
    'two consoles with SQLite',
    consoleOn({ replicas: 2 }),
    'set console.replicas to 1, or secrets.database.url.existingSecret for PostgreSQL',
  ],
  [
    'a file that no volume holds',
    { ...consoleOn(), config: { ...MINIMAL.config, database: { url: 'sqlite:/tmp/keys.db' } } },
    'would be lost: remove it, or use a path below /var/lib/postern/',
  ],
  [
    'two monitors of the same pods',
    { ...MINIMAL, monitoring: { podMonitor: { enabled: true }, serviceMonitor: { enabled: true } } },
    'set enabled: false on one of them',
  ],
  [
    'dashboards for an operator that are not made',
    { ...MINIMAL, monitoring: { dashboards: { grafanaOperator: { enabled: true } } } },
    'set monitoring.dashboards.enabled to true',
  ],
  [
    'an unknown alert',
    { ...MINIMAL, monitoring: { prometheusRule: { overrides: { PosternNone: { for: '1m' } } } } },
    'names the alert PosternNone, which does not exist',
  ],
]

describe.skipIf(!has(HELM))('values that contradict each other are rejected with what to set', () => {
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

/** An invalid value, the values, and the name in the error. */
const UNKNOWN: readonly (readonly [string, Values, string])[] = [
  ['an unknown value', { replicaCount: 3 }, 'replicaCount'],
  ['an unknown value of a plane', gateway({ replica: 3 }), 'replica'],
  ['an unknown setting', config({ keys: { ttl: 3 } }), 'ttl'],
  ['an unknown section of settings', config({ quotas: {} }), 'quotas'],
  ['an unknown setting of a route', config({ routes: { a: { path: '/a', methods: [] } } }), 'methods'],
  ['a reference for a setting that is no secret', { ...MINIMAL, secrets: { log: { level: {} } } }, 'log'],
  ['a secret in place of a reference', { ...MINIMAL, secrets: { redis: { password: 'x' } } }, 'password'],
  ['a string for a number', config({ gateway: { port: '8080' } }), 'port'],
  ['a number beyond its bounds', config({ drain: { delayMs: 4_000_000 } }), 'delayMs'],
  ['an address with another scheme', config({ upstream: { url: 'ftp://workspaces' } }), 'url'],
  ['a password in the upstream’s address', config({ upstream: { url: 'http://a:b@workspaces' } }), 'url'],
  ['an invalid header name', config({ gateway: { requestHeaders: ['X Y'] } }), 'requestHeaders'],
  ['an unknown log level', config({ log: { level: 'loud' } }), 'level'],
  ['ports of a Service, which the chart sets', gateway({ service: { spec: { ports: [] } } }), 'ports'],
  ['the tag latest', { ...MINIMAL, image: { ...MINIMAL.image, tag: 'latest' } }, 'tag'],
  ['an invalid digest', { ...MINIMAL, image: { ...MINIMAL.image, digest: 'abc' } }, 'digest'],
  ['a path for a probe', pod({ probes: { liveness: { path: '/' } } }), 'path'],
  ['a negative number of pods', gateway({ replicas: -1 }), 'replicas'],
]

describe.skipIf(!has(HELM))('unknown and invalid values are rejected by name', () => {
  it.each(UNKNOWN)('%s', (_, values, name) => {
    const { ok, stderr } = render(values)
    expect(ok).toBe(false)
    expect(stderr).toMatch(/don't meet the specifications of the schema/)
    expect(stderr).toContain(name)
  })
})

describe.skipIf(!has(HELM))('values that Helm itself adds', () => {
  it('are accepted: the switch and the globals of a parent chart', () => {
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

it.skipIf(!has(HELM))('an unsupported Kubernetes version is rejected', () => {
  const { ok, stderr } = render(MINIMAL, { args: ['--kube-version', '1.29.9'] })
  expect(ok).toBe(false)
  expect(stderr).toContain('>=1.30')
})
