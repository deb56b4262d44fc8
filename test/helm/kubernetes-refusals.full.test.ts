import { describe, expect, it } from 'vitest'
import { settings } from '../../src/config/settings.ts'
import { FOREIGN_SETTINGS } from '../docs/chart-settings.ts'
import { MINIMAL, render, type Values, WITH_CONSOLE } from '../support/chart.ts'
import { HELM, has } from '../support/tools.ts'

const POSTGRES = { ...MINIMAL.secrets, database: { url: { existingSecret: 'database' } } }
const gateway = (more: object): Values => ({ ...MINIMAL, gateway: more })
const consoleOn = (more: object): Values => ({
  ...WITH_CONSOLE,
  secrets: POSTGRES,
  console: { enabled: true, replicas: 2, ...more },
})
const scheduled = (schedule: string): Values => consoleOn({ backup: { enabled: true, schedule } })
const budget = (more: object) => gateway({ replicas: 2, podDisruptionBudget: more })
const resources = (more: object) => gateway({ resources: more })

/** Values that Kubernetes would refuse after a part of the release was installed, or take in another sense; and the path in the error. */
const REFUSED: readonly (readonly [string, Values, string])[] = [
  ['a budget of no pod', budget({ maxUnavailable: 0 }), 'gateway.podDisruptionBudget.maxUnavailable is 0,'],
  [
    'a budget of no share',
    budget({ maxUnavailable: '0%' }),
    'gateway.podDisruptionBudget.maxUnavailable is 0%,',
  ],
  [
    'a budget of no console',
    consoleOn({ podDisruptionBudget: { maxUnavailable: 0 } }),
    'console.podDisruptionBudget.maxUnavailable is 0,',
  ],
  [
    'a share that is rounded up to all pods',
    budget({ maxUnavailable: null, minAvailable: '51%' }),
    'gateway.podDisruptionBudget.minAvailable is 51% of 2 pods',
  ],
  [
    'a node port of a Service without one',
    gateway({ service: { nodePort: 30_080 } }),
    'gateway.service.nodePort is 30080, and a Service of the type ClusterIP',
  ],
  [
    'the same of the console',
    consoleOn({ service: { nodePort: 30_081 } }),
    'console.service.nodePort is 30081,',
  ],
  [
    'the same of the internal listener',
    consoleOn({ internalService: { nodePort: 30_082 } }),
    'console.internalService.nodePort is 30082,',
  ],
  [
    'one node port for two Services',
    {
      ...consoleOn({ service: { type: 'NodePort', nodePort: 30_080 } }),
      gateway: { service: { type: 'LoadBalancer', nodePort: 30_080 } },
    },
    'gateway.service.nodePort and console.service.nodePort are both 30080',
  ],
  [
    'a class of load balancers without one',
    gateway({ service: { spec: { loadBalancerClass: 'x' } } }),
    'gateway.service.spec.loadBalancerClass is for Services of the type LoadBalancer',
  ],
  [
    'a policy for traffic from outside, without any',
    gateway({ service: { spec: { externalTrafficPolicy: 'Local' } } }),
    'gateway.service.spec.externalTrafficPolicy is for',
  ],
  [
    'a port on nodes without an address',
    gateway({ service: { type: 'NodePort', spec: { clusterIP: 'None' } } }),
    'gateway.service.spec.clusterIP is None',
  ],
  [
    'a request above its limit',
    resources({ requests: { memory: '1Gi' }, limits: { memory: '512Mi' } }),
    'gateway.resources.requests.memory is 1Gi, which is more than gateway.resources.limits.memory, 512Mi',
  ],
  [
    'the same with other units',
    resources({ requests: { cpu: 2 }, limits: { cpu: '1500m' } }),
    'gateway.resources.requests.cpu is 2, which is more than',
  ],
  [
    'a request of the backup above its limit',
    consoleOn({ backup: { enabled: true, resources: { requests: { memory: '1G' } } } }),
    'console.backup.resources.requests.memory is 1G, which is more than',
  ],
  [
    'thousandths of a byte',
    resources({ limits: { memory: '512m' } }),
    'gateway.resources.limits.memory is 512m, which is less than 1 MiB (m means thousandths of a byte): set a unit such as Mi',
  ],
  [
    'a request of thousandths',
    resources({ requests: { memory: '256m' } }),
    'gateway.resources.requests.memory is 256m,',
  ],
  ['bytes without a unit', resources({ limits: { memory: 512 } }), 'gateway.resources.limits.memory is 512,'],
  [
    'a console with thousandths of a byte',
    consoleOn({ resources: { limits: { memory: '384m' } } }),
    'console.resources.limits.memory is 384m,',
  ],
  [
    'a backup with thousandths of a byte',
    consoleOn({ backup: { enabled: true, resources: { limits: { memory: '384m' } } } }),
    'console.backup.resources.limits.memory is 384m,',
  ],
  [
    'a test with thousandths',
    { ...MINIMAL, tests: { resources: { limits: { memory: '128m' } } } },
    'tests.resources.limits.memory is 128m,',
  ],
  [
    'a volume of thousandths',
    { ...WITH_CONSOLE, console: { enabled: true, persistence: { size: '5m' } } },
    'console.persistence.size is 5m,',
  ],
  ['a small directory', { ...MINIMAL, pod: { tmpSizeLimit: '64m' } }, 'pod.tmpSizeLimit is 64m,'],
  [
    'a schedule of four fields',
    scheduled('17 3 * *'),
    'console.backup.schedule is "17 3 * *", which has 4 fields',
  ],
  [
    'a schedule of words',
    scheduled('daily at three'),
    'console.backup.schedule is "daily at three", which has 3',
  ],
  ['the 60th minute', scheduled('60 3 * * *'), 'whose minute is 60: set numbers from 0 to 59'],
  ['the 24th hour', scheduled('0 24 * * *'), 'whose hour is 24'],
  ['day 0', scheduled('0 3 0 * *'), 'whose day of the month is 0'],
  ['the 13th month', scheduled('0 3 1 13 *'), 'whose month is 13'],
  ['Sunday as 7', scheduled('0 3 * * 7'), 'whose day of the week is 7'],
  ['a range the wrong way round', scheduled('0 3 * * FRI-MON'), 'whose day of the week is FRI-MON'],
  ['a step of 0', scheduled('*/0 3 * * *'), 'whose minute is */0'],
  ['an empty part', scheduled('0,,5 3 * * *'), 'whose minute is 0,,5'],
  ['an unknown word', scheduled('@nightly'), '"@nightly", which Kubernetes does not know'],
  ['a time zone in the schedule', scheduled('TZ=UTC 0 3 * * *'), 'set console.backup.timeZone'],
]

/** What the schema refuses, with the path that Helm prints. */
const BY_SCHEMA: readonly (readonly [string, Values, string])[] = [
  ['an unknown unit', resources({ limits: { memory: '512MB' } }), '/gateway/resources/limits/memory'],
  ['memory in processors', resources({ requests: { cpu: '250Mi' } }), '/gateway/resources/requests/cpu'],
  ['a place for a time zone', consoleOn({ backup: { timeZone: 'Local' } }), '/console/backup/timeZone'],
  ['an offset for a time zone', consoleOn({ backup: { timeZone: '+02:00' } }), '/console/backup/timeZone'],
  [
    'an unknown eviction policy',
    budget({ unhealthyPodEvictionPolicy: 'Never' }),
    '/unhealthyPodEvictionPolicy',
  ],
  ['a namespace that is none', { ...MINIMAL, namespaceOverride: 'Edge_1' }, '/namespaceOverride'],
]

describe.skipIf(!has(HELM))(
  'values that no cluster takes are refused before anything is installed, by their path',
  () => {
    it.each(REFUSED)('%s', (_, values, sentence) => {
      const { ok, stderr } = render(values)
      expect(stderr.replace(/\s+/g, ' ')).toContain(sentence)
      expect(ok).toBe(false)
    })

    it.each(BY_SCHEMA)('%s, by the schema', (_, values, path) => {
      const { ok, stderr } = render(values)
      expect(stderr.replaceAll('.', '/')).toContain(path)
      expect(ok).toBe(false)
    })

    it.each([
      ...['17 3 * * *', '*/15 0-23/2 1,15 jan-DEC Mon-fri', '? ? ? ? ?', '5/10 08 * 1-3,5 0', '0  3 * * SUN'],
      ...['@daily', '@every 1h30m'],
    ])('the schedule %s is taken', schedule => {
      expect(render(scheduled(schedule)).stderr).toBe('')
    })

    it.each([
      ['a budget of one', budget({ maxUnavailable: '1%' })],
      ['half of two pods', budget({ maxUnavailable: null, minAvailable: '50%' })],
      ['equal request and limit', resources({ requests: { memory: '1Gi' }, limits: { memory: '1024Mi' } })],
      ['bytes as a number', resources({ requests: { memory: 268_435_456 }, limits: { memory: '0.5Gi' } })],
      ['no limit', resources({ requests: { cpu: 0.5 }, limits: { memory: null } })],
      ['a service of its own address', gateway({ service: { spec: { clusterIP: 'None' } } })],
    ] as const)('%s is taken', (_, values) => {
      expect(render(values).stderr).toBe('')
    })
  },
)

/** Of each setting that only one plane uses, an example in the tree of settings. */
const FOREIGN: Readonly<Record<'gateway' | 'console', Readonly<Record<string, object>>>> = {
  gateway: {
    console: { console: { port: 8081 } },
    database: { database: { url: 'postgres://database/postern' } },
    regions: { regions: [{ name: 'eu', redis: { url: 'redis://eu' } }] },
    leaks: { leaks: { enabled: false } },
    webhooks: { webhooks: { workspaces: { enabled: true } } },
  },
  console: {
    gateway: { gateway: { maxInFlight: 100 } },
    upstream: { upstream: { url: 'http://workspaces' } },
    region: { region: 'eu' },
    'limits.replicas': { limits: { replicas: 2 } },
    'metrics.workspaces': { metrics: { workspaces: ['ws_1'] } },
    tracing: { tracing: { endpoint: 'http://collector:4318' } },
    'redis.heartbeats': { redis: { heartbeats: false } },
    'keyService.url': { keyService: { url: 'https://keys.example.com' } },
    'keyService.circuit': { keyService: { circuit: { failures: 5 } } },
    'keyService.timeoutMs': { keyService: { timeoutMs: 500 } },
    'keyService.tls': { keyService: { tls: { caFile: '/ca.pem' } } },
    'keys.memory': { keys: { memory: { ttlSeconds: 10 } } },
    'keys.unsignedLookups': { keys: { unsignedLookups: { perSecond: 10 } } },
    'keys.staleSeconds': { keys: { staleSeconds: 0 } },
    'usage.reportSeconds': { usage: { reportSeconds: 0 } },
    'usage.maxEntries': { usage: { maxEntries: 1000 } },
    'usage.export': { usage: { export: { url: 'http://collector' } } },
  },
}

describe.skipIf(!has(HELM))('settings that only the other plane uses are refused by their path', () => {
  const cases = (['gateway', 'console'] as const).flatMap(plane =>
    Object.entries(FOREIGN[plane]).map(([path, config]) => [plane, path, config] as const),
  )
  it.each(cases)('%s.config.%s', (plane, path, config) => {
    const { ok, stderr } = render({
      ...WITH_CONSOLE,
      console: { enabled: true },
      [plane]: { enabled: true, config },
    })
    expect(stderr).toContain(`${plane}.config.${path} has no effect, because only the`)
    expect(ok).toBe(false)
  })

  it('that is every one that the chart knows of, and each exists', () => {
    for (const plane of ['gateway', 'console'] as const) {
      expect(Object.keys(FOREIGN[plane])).toEqual(FOREIGN_SETTINGS[plane])
      for (const path of FOREIGN_SETTINGS[plane]) {
        expect(
          settings.some(setting => `${setting.path}.`.startsWith(`${path}.`)),
          path,
        ).toBe(true)
      }
    }
  })

  it('secrets too', () => {
    const tls = { caFile: { existingSecret: 'ca' } }
    const { stderr } = render(consoleOn({ secrets: { upstream: { tls } } }))
    expect(stderr).toContain('console.secrets.upstream has no effect, because only the gateway uses it')
  })

  it('in `config`, for both planes, they are no mistake: a plane gets its own', () => {
    const upstream = { url: 'http://workspaces' }
    const { stderr } = render({ ...WITH_CONSOLE, config: { upstream, ...FOREIGN.gateway['leaks'] } })
    expect(stderr).toBe('')
  })
})
