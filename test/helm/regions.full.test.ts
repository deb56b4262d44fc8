import { describe, expect, it } from 'vitest'
import type { Plane } from '../../src/config/rules.ts'
import { MINIMAL, mountedSecrets, render, settingsOf, type Values } from '../support/chart.ts'
import { at, listAt, textAt, valueAt } from '../support/manifests.ts'
import { HELM, has } from '../support/tools.ts'

const CONSOLE_FILE = 'regions-console-values.yaml'
const GATEWAYS_FILE = 'region-gateways-values.yaml'
const consoleRelease = (values: Values = {}) => render(values, { files: [CONSOLE_FILE] })
const gatewaysRelease = (values: Values = {}) => render(values, { files: [GATEWAYS_FILE] })

const SECRETS = '/etc/postern/secrets'
const EU = { name: 'eu', redis: { url: 'redis://redis.eu:6379' } }
const US = { name: 'us', redis: { url: 'redis://redis.us:6379' } }

function egressOf(rendering: ReturnType<typeof render>, plane: Plane): [unknown, unknown][] {
  const policy = rendering.get('NetworkPolicy', `-${plane}`)
  return listAt(policy, 'spec.egress').map(rule => [
    listAt(rule, 'ports').map(({ port }) => port),
    valueAt(rule, 'to', '0', 'ipBlock', 'cidr') ?? 'any peer',
  ])
}

describe.skipIf(!has(HELM))('a release of a console with regions', () => {
  it('mounts the secrets of each region for the console, below its name', () => {
    const { regions } = settingsOf(consoleRelease(), 'console')
    expect(regions).toMatchObject([
      { name: 'eu', redis: { passwordFile: `${SECRETS}/regions.eu.redis.password`, username: 'console' } },
      { name: 'us', redis: { sentinel: { passwordFile: `${SECRETS}/regions.us.redis.sentinel.password` } } },
      { name: 'ap', redis: { urlFile: `${SECRETS}/regions.ap.redis.url` } },
    ])
    expect(mountedSecrets(consoleRelease(), 'console')).toMatchObject({
      'regions.eu.redis.password': 'redis-eu/console-password',
      'regions.eu.redis.caFile': 'internal-ca/ca.crt',
      'regions.us.redis.sentinel.password': 'redis-us/sentinel-password',
      // The default key is the setting's path in the region.
      'regions.ap.redis.url': 'redis-ap/redis-url',
    })
  })

  it('gives its gateways a region and a Redis, and no credential of another region', () => {
    const settings = settingsOf(consoleRelease(), 'gateway')
    expect(settings).toMatchObject({ region: 'eu', redis: { username: 'gateway' } })
    expect(settings).not.toHaveProperty('regions')
    expect(Object.keys(mountedSecrets(consoleRelease(), 'gateway')).join()).not.toContain('regions.')
    const console = settingsOf(consoleRelease(), 'console')
    expect(console).not.toHaveProperty('region')
    expect(console).not.toHaveProperty('redis')
  })

  it('lets the console reach the Redis of each region, and the Sentinels of those that have them', () => {
    expect(egressOf(consoleRelease(), 'console').slice(1)).toEqual([
      [[6380], 'any peer'],
      [[6379], '10.32.0.0/16'],
      [[26_379], '10.32.0.0/16'],
      [[6380], '10.33.0.0/16'],
      [[5432], 'any peer'],
    ])
  })

  it('lets gateways of other clusters reach the key service, over TLS, and nothing else', () => {
    const rendering = consoleRelease()
    const service = rendering.get('Service', '-console-internal')
    expect(at(service, 'spec')).toMatchObject({
      type: 'LoadBalancer',
      loadBalancerSourceRanges: ['10.32.0.0/12'],
    })
    expect(listAt(service, 'spec.ports')).toMatchObject([{ port: 8082, appProtocol: 'https' }])
    const others = rendering.all('Service').filter(object => object !== service)
    expect(others.map(object => valueAt(object, 'spec.type'))).not.toContain('LoadBalancer')
    const [, internal] = listAt(rendering.get('NetworkPolicy', '-console'), 'spec.ingress')
    expect(listAt(internal, 'from')).toContainEqual({ ipBlock: { cidr: '10.32.0.0/12' } })
  })

  it('watches the regions by alerts of the console’s job alone', () => {
    const monitoring = { trustApis: true, prometheusRule: { enabled: true }, podMonitor: { enabled: true } }
    const rules = (rendering: ReturnType<typeof render>) =>
      JSON.stringify(at(rendering.get('PrometheusRule'), 'spec'))
    expect(rules(consoleRelease({ monitoring }))).toContain(
      String.raw`postern_region_up{namespace=\"default\",job=\"acme-postern-console\"}`,
    )
    expect(rules(gatewaysRelease({ monitoring }))).not.toContain('postern_region_up')
  })
})

describe.skipIf(!has(HELM))('a release of a region without a console', () => {
  it('asks the console of another cluster, over TLS and with time for the long way', () => {
    expect(settingsOf(gatewaysRelease(), 'gateway')).toMatchObject({
      region: 'us',
      keyService: {
        url: 'https://keys.eu.internal:8082',
        timeoutMs: 2000,
        tokenFile: `${SECRETS}/keyService.token`,
        tls: { caFile: `${SECRETS}/keyService.tls.caFile` },
      },
    })
    expect(egressOf(gatewaysRelease(), 'gateway')).toContainEqual([[8082], '10.16.0.0/16'])
  })

  it('has the signing secret and the token of the console, from a Secret of the same form', () => {
    const shared = (rendering: ReturnType<typeof render>, plane: Plane) => {
      const mounted = mountedSecrets(rendering, plane)
      return [mounted['keys.signingSecrets'], mounted['keyService.token']]
    }
    expect(shared(gatewaysRelease(), 'gateway')).toEqual(shared(consoleRelease(), 'console'))
    expect(gatewaysRelease().all('Secret')).toEqual([])
  })

  it('has no object of a console', () => {
    const names = gatewaysRelease().objects.map(object => textAt(object, 'metadata.name'))
    expect(names.filter(name => name.includes('console'))).toEqual([])
  })
})

/** Two regions, and gateways in the first. */
const BOTH = {
  image: MINIMAL.image,
  config: { ...MINIMAL.config, region: 'eu', regions: [EU, US] },
  gateway: { config: { redis: EU.redis } },
  console: { enabled: true },
}
const regions = (...list: object[]) => ({ ...BOTH, config: { ...BOTH.config, regions: list } })
const references = (of: object) => ({ ...BOTH, secrets: { regions: of } })
const REFERENCE = { existingSecret: 'redis-eu' }
/** Gateways alone. */
const ALONE = {
  ...MINIMAL,
  config: { ...MINIMAL.config, region: 'us', keyService: { url: 'https://keys:8082' } },
  secrets: { ...MINIMAL.secrets, keyService: { token: { existingSecret: 'postern-shared' } } },
}
const LOAD_BALANCER = { enabled: true, internalService: { type: 'LoadBalancer' } }
const OF_TLS = { existingSecret: 'internal-tls' }
const TLS = { console: { internal: { tls: { certFile: OF_TLS, keyFile: OF_TLS } } } }

const CONTRADICTIONS: readonly (readonly [string, Values, string])[] = [
  ['a name twice', regions(EU, EU), 'config.regions has two entries named eu'],
  [
    'regions and one Redis for the console',
    { ...BOTH, config: { ...BOTH.config, redis: EU.redis } },
    'move config.redis to gateway.config.redis and secrets.redis to gateway.secrets.redis',
  ],
  [
    'a region without a Redis',
    regions(EU, { name: 'us' }),
    'set its redis.url, redis.sentinel or redis.cluster, or secrets.regions.us.redis.url.existingSecret',
  ],
  [
    'a region with two kinds of Redis',
    regions(EU, { name: 'us', redis: { ...US.redis, cluster: { urls: ['a:6379'] } } }),
    'us of config.regions has url and cluster, which are different kinds of Redis',
  ],
  [
    'half of Sentinel in a region',
    regions(EU, { name: 'us', redis: { sentinel: { urls: ['a:26379'] } } }),
    'redis.sentinel of the region us is incomplete: set name',
  ],
  [
    'a password of a region in values',
    regions(EU, { name: 'us', redis: { ...US.redis, password: 'hunter2' } }),
    'set secrets.regions.us.redis.password.existingSecret',
  ],
  [
    'a password in the address of a region',
    regions(EU, { name: 'us', redis: { url: 'redis://:hunter2@redis.us' } }),
    'set secrets.regions.us.redis.url.existingSecret',
  ],
  [
    'an address of a region twice',
    references({ eu: { redis: { url: REFERENCE } } }),
    'secrets.regions.eu.redis.url and redis.url of that region in config.regions set the same setting',
  ],
  [
    'secrets of no region',
    references({ ue: { redis: { password: REFERENCE } } }),
    'secrets.regions.ue belongs to no region of config.regions (eu, us)',
  ],
  [
    'network peers of no region',
    { ...BOTH, networkPolicy: { regions: { ue: {} } } },
    'networkPolicy.regions.ue belongs to no region',
  ],
  [
    'gateways of no region beside such a console',
    { ...BOTH, config: { ...MINIMAL.config, regions: [EU, US] } },
    'set config.region to one of eu, us, or gateway.enabled to false',
  ],
  [
    'gateways of a region that the console does not know',
    { ...BOTH, config: { ...BOTH.config, region: 'ap' } },
    'config.region is ap, which config.regions does not name: set it to one of eu, us',
  ],
  [
    'a region of a console without regions',
    { ...MINIMAL, config: { ...MINIMAL.config, region: 'eu' }, console: { enabled: true } },
    'the console of this release has no regions: set config.regions, or remove config.region',
  ],
  [
    'regions without a console',
    { ...ALONE, config: { ...ALONE.config, regions: [US] } },
    'this release has none: set config.region to the region of these gateways',
  ],
  [
    'a region without its Redis',
    { ...ALONE, secrets: { ...ALONE.secrets, redis: {} } },
    'the gateways of the region us have no Redis',
  ],
  [
    'a region without the way to the console',
    { ...ALONE, config: { ...MINIMAL.config, region: 'us' } },
    'set config.keyService.url to the internal listener of the console',
  ],
  [
    'an internal listener for other clusters without TLS',
    { ...BOTH, console: LOAD_BALANCER },
    'set certFile and keyFile below secrets.console.internal.tls',
  ],
  [
    'an internal listener for other clusters that the network policy closes',
    { ...BOTH, secrets: TLS, console: LOAD_BALANCER, networkPolicy: { enabled: true } },
    'set networkPolicy.internalFrom to their addresses',
  ],
]

describe.skipIf(!has(HELM))(
  'values of regions that contradict each other are rejected with what to set',
  () => {
    it('but not the values that they are made of', () => {
      for (const values of [BOTH, ALONE, { ...BOTH, secrets: TLS, console: LOAD_BALANCER }]) {
        expect(render(values).stderr).toBe('')
      }
    })

    it.each(CONTRADICTIONS)('%s', (_, values, sentence) => {
      const { ok, stderr } = render(values)
      expect(ok).toBe(false)
      expect(stderr.replace(/\s+/g, ' ')).toContain(sentence)
      expect(stderr).not.toContain('hunter2')
    })

    it('an unknown setting of a region is rejected by name', () => {
      const { stderr } = render(regions({ name: 'eu', redis: { ...EU.redis, heartbeats: false } }))
      expect(stderr).toContain('heartbeats')
    })
  },
)
