import { beforeAll, describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { CHART, NAME, RELEASE, render, type Values, WITH_CONSOLE } from '../support/chart.ts'
import { at, listAt, textAt, valueAt } from '../support/manifests.ts'
import { type ControlPlane, untilInCluster } from './control-plane.ts'
import { type Part, STEP_MS } from './on-control-plane.ts'

const READY_MS = 60_000

/** Schedules at the bounds of what Kubernetes takes, on both sides. */
const SCHEDULES = [
  ...[
    '17 3 * * *',
    '0 0 1 1 0',
    '59 23 31 12 6',
    '*/15 0-23/2 1,15 jan-DEC Mon-fri',
    '? ? ? ? ?',
    '5/10 08 * 1-3,5 0',
  ],
  ...[
    '0  3 * * SUN',
    '*/90 * * * *',
    '@daily',
    '@midnight',
    '@annually',
    '@every 1h30m',
    '0 3 30 2 *',
    '1-1 * * * *',
  ],
  ...[
    '17 3 * *',
    '17 3 * * * *',
    'daily',
    '60 * * * *',
    '* 24 * * *',
    '* * 0 * *',
    '* * 32 * *',
    '* * * 0 *',
  ],
  ...[
    '* * * 13 *',
    '* * * * 7',
    '* * * * FRI-MON',
    '*/0 * * * *',
    '*/x * * * *',
    '0,,5 * * * *',
    '-5 * * * *',
    '5- * * * *',
  ],
  ...[
    '1-2-3 * * * *',
    '*-5 * * * *',
    '* * * jan-13 *',
    '* * * january *',
    '* * * * *,8',
    '1.5 * * * *',
    '@nightly',
    '@DAILY',
  ],
  ...['@every', '@every 5', 'TZ=UTC 0 3 * * *', 'CRON_TZ=UTC 0 3 * * *', '* * mon * *', '# * * * *'],
]

/** Kubernetes takes them in another sense: it passes over an empty part, and the end of a range that begins with *. */
const MISREAD = ['0,,5 * * * *', '*-5 * * * *']

/** Of each kind of value that the chart refuses, one that Kubernetes would refuse with a part of the release installed. */
const REFUSED: Readonly<Record<string, Values>> = {
  'gateway.podDisruptionBudget.maxUnavailable is 0': {
    gateway: { podDisruptionBudget: { maxUnavailable: 0 } },
  },
  'gateway.service.nodePort is 30080': { gateway: { service: { nodePort: 30_080 } } },
  'gateway.resources.limits.memory is 512m': { gateway: { resources: { limits: { memory: '512m' } } } },
  'console.backup.schedule is': {
    console: { enabled: true, backup: { enabled: true, schedule: '61 3 * * *' } },
  },
  'console.config.upstream has no effect': {
    console: { enabled: true, config: { upstream: { url: 'http://w' } } },
  },
}

/** Every value of the chart that has a form of its own in Kubernetes, and that no example has. */
const WIDE: Values = {
  ...WITH_CONSOLE,
  config: {
    ...WITH_CONSOLE.config,
    webhooks: {
      workspaces: {
        enabled: true,
        allowedCidrs: ['10.7.0.0/16', 'fd00::5'],
        deniedCidrs: ['198.51.100.7', '2606:4700::/32'],
      },
    },
    leaks: { enabled: true },
    tracing: { endpoint: 'https://collector.example.com' },
  },
  networkPolicy: { enabled: true },
  pod: {
    extraEnv: [{ name: 'HTTPS_PROXY', value: 'http://proxy.example.com:3128' }],
    dnsConfig: { nameservers: ['10.96.0.10', 'fd00::a'] },
  },
  gateway: {
    autoscaling: { enabled: true, labels: { team: 'edge' }, annotations: { owner: 'edge' } },
    podDisruptionBudget: { unhealthyPodEvictionPolicy: 'IfHealthyBudget' },
    ingress: { enabled: true, hosts: [{ host: 'api.example.com' }], labels: { team: 'edge' } },
  },
  console: {
    enabled: true,
    pod: {
      extraContainers: [
        {
          name: 'cloud-sql-proxy',
          image: 'registry.example.com/proxy',
          readinessProbe: { httpGet: { path: '/readiness', port: 9801 } },
        },
      ],
    },
    backup: { enabled: true, timeZone: 'Europe/Berlin', suspend: true, annotations: { owner: 'platform' } },
  },
}

let cluster: ControlPlane

async function makeNamespace(name: string): Promise<string> {
  await cluster.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
  return name
}

function install(namespace: string, values: Values, ...flags: string[]) {
  return cluster.helm(
    ['upgrade', '--install', RELEASE, CHART, '-n', namespace, '-f', '-', ...flags],
    stringify(values),
  )
}

/** @returns which of the schedules the API server takes */
async function takenSchedules(schedules: readonly string[]): Promise<readonly boolean[]> {
  const spec = { containers: [{ name: 'x', image: 'x' }], restartPolicy: 'Never' }
  const jobs = schedules.map((schedule, index) => ({
    apiVersion: 'batch/v1',
    kind: 'CronJob',
    metadata: { name: `job-${index}`, namespace: 'default' },
    spec: { schedule, jobTemplate: { spec: { template: { spec } } } },
  }))
  const { stdout } = await cluster.create(jobs, '--dry-run=server')
  return schedules.map((_, index) => stdout.includes(`cronjob.batch/job-${index} created`))
}

/** What the chart has to say about each of the schedules, in one rendering. */
function mistakesOf(schedules: readonly string[]): readonly string[] {
  const calls = schedules.map(
    schedule => `{{ include "postern.scheduleMistake" ${JSON.stringify(schedule)} | quote }}`,
  )
  const extraObjects = [
    `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mistakes"}, "data": [${calls.join(',')}]}`,
  ]
  const mistakes = render({ ...WITH_CONSOLE, extraObjects }).get('ConfigMap', 'mistakes')['data']
  return mistakes as readonly string[]
}

/** What Kubernetes makes of values, and of those that the chart refuses. */
export const describeValues: Part = shared =>
  describe('values of the chart', { concurrent: true, timeout: STEP_MS }, () => {
    beforeAll(() => {
      cluster = shared()
    })

    it('a schedule is refused by the chart exactly if Kubernetes refuses it, or misreads it', async () => {
      const taken = await takenSchedules(SCHEDULES)
      const mistakes = mistakesOf(SCHEDULES)
      const answers = SCHEDULES.map((schedule, index) => ({
        schedule,
        kubernetes: taken[index],
        chart: mistakes[index] === '',
      }))
      const differ = answers.filter(({ chart, kubernetes }) => chart !== kubernetes)
      expect(differ.map(({ schedule }) => schedule)).toEqual(MISREAD)
      expect(taken.filter(Boolean).length).toBeGreaterThan(10)
    })

    it('what the chart refuses leaves nothing behind', async () => {
      const namespace = await makeNamespace('refused')
      for (const [path, values] of Object.entries(REFUSED)) {
        const { ok, stderr } = await install(namespace, { ...WITH_CONSOLE, ...values })
        expect([ok, stderr]).toEqual([false, expect.stringContaining(path)])
      }
      const kinds =
        'deployments,statefulsets,services,persistentvolumeclaims,secrets,networkpolicies,cronjobs'
      expect(await cluster.listAll(kinds, namespace)).toEqual([])
    })

    it('a volume claim that exists cannot become smaller, and nothing of that upgrade is installed', async () => {
      const namespace = await makeNamespace('smaller')
      const sized = (size: string, backup: string): Values => ({
        ...WITH_CONSOLE,
        console: {
          enabled: true,
          persistence: { size },
          backup: { enabled: true, persistence: { size: backup } },
        },
      })
      expect(await install(namespace, sized('2Gi', '3Gi'))).toMatchObject({ ok: true })
      const before = await cluster.get('statefulset', `${NAME}-console`, namespace)
      const { ok, stderr } = await install(namespace, sized('1500Mi', '2G'))
      expect(ok).toBe(false)
      expect(stderr).toContain(
        `console.persistence.size is 1500Mi, and the claim ${NAME}-console-data has 2Gi`,
      )
      expect(stderr).toContain(`console.backup.persistence.size is 2G, and the claim ${NAME}-backup has 3Gi`)
      expect(
        valueAt(await cluster.get('statefulset', `${NAME}-console`, namespace), 'metadata.generation'),
      ).toBe(valueAt(before, 'metadata.generation'))
      expect(await install(namespace, sized('2048Mi', '3072Mi'))).toMatchObject({ ok: true })
      const modes: Values = {
        ...WITH_CONSOLE,
        console: {
          enabled: true,
          persistence: { size: '2Gi', accessModes: ['ReadWriteMany'], storageClassName: 'fast' },
        },
      }
      const { stderr: changed } = await install(namespace, modes)
      expect(changed).toContain('console.persistence.accessModes is ReadWriteMany')
      expect(changed).toContain('console.persistence.storageClassName is fast')
    })

    it('stores the rarer values as they were given: policies, backup, autoscaler', async () => {
      const namespace = await makeNamespace('wide')
      expect(await install(namespace, WIDE)).toMatchObject({ ok: true })
      const rendered = render(WIDE)
      for (const plane of ['gateway', 'console', 'backup']) {
        const stored = await cluster.get('networkpolicy', `${NAME}-${plane}`, namespace)
        expect(valueAt(stored, 'spec.egress')).toEqual(
          valueAt(rendered.get('NetworkPolicy', `-${plane}`), 'spec.egress'),
        )
      }
      const cronJob = await cluster.get('cronjob', `${NAME}-backup`, namespace)
      expect(at(cronJob, 'spec')).toMatchObject({ timeZone: 'Europe/Berlin', suspend: true })
      const [proxy] = listAt(cronJob, 'spec.jobTemplate.spec.template.spec.initContainers')
      expect(proxy).toMatchObject({ name: 'cloud-sql-proxy', restartPolicy: 'Always' })
      expect(proxy).toHaveProperty('startupProbe')
    })

    it('a Service with a port on nodes becomes one of the cluster alone, and back', async () => {
      const namespace = await makeNamespace('services')
      const typed = (type: string, nodePort: number | null): Values => ({
        ...WITH_CONSOLE,
        gateway: { service: { type, nodePort } },
      })
      for (const [type, port] of [
        ['NodePort', 30_080],
        ['ClusterIP', null],
        ['LoadBalancer', null],
        ['ClusterIP', null],
      ] as const) {
        expect(await install(namespace, typed(type, port))).toMatchObject({ ok: true })
        const service = await cluster.get('service', `${NAME}-gateway`, namespace)
        expect(valueAt(service, 'spec.type')).toBe(type)
        expect(listAt(service, 'spec.ports')[0]?.['nodePort'] === undefined).toBe(type === 'ClusterIP')
      }
    })

    it('a CronJob that kubectl has suspended stays so through an upgrade, and a setting ends it', async () => {
      const namespace = await makeNamespace('suspended')
      const values = (more: object): Values => ({
        ...WITH_CONSOLE,
        console: { enabled: true, backup: { enabled: true, ...more } },
      })
      const suspended = async () =>
        valueAt(await cluster.get('cronjob', `${NAME}-backup`, namespace), 'spec.suspend')
      await install(namespace, values({}))
      await cluster.kubectl(
        '-n',
        namespace,
        'patch',
        'cronjob',
        `${NAME}-backup`,
        '-p',
        '{"spec":{"suspend":true}}',
      )
      expect(await install(namespace, values({ keep: 8 }))).toMatchObject({ ok: true })
      expect(await suspended()).toBe(true)
      await install(namespace, values({ suspend: true }))
      await install(namespace, values({}))
      expect(await suspended()).toBe(false)
    })

    it('namespaceOverride: a release in one namespace becomes ready in another, keeps its secrets, and is tested there', async () => {
      const home = await makeNamespace('release-home')
      const away = await makeNamespace('release-away')
      const values: Values = { ...WITH_CONSOLE, namespaceOverride: away, networkPolicy: { enabled: true } }
      expect(await install(home, values)).toMatchObject({ ok: true })
      const ready = async () =>
        valueAt(await cluster.get('deployment', `${NAME}-gateway`, away), 'status.readyReplicas') === 2 &&
        valueAt(await cluster.get('statefulset', `${NAME}-console`, away), 'status.readyReplicas') === 1
      await untilInCluster('both planes are ready', ready, READY_MS)
      const secret = await cluster.get('secret', `${NAME}-generated`, away)
      expect(await install(home, { ...values, gateway: { replicas: 3 } })).toMatchObject({ ok: true })
      expect(at(await cluster.get('secret', `${NAME}-generated`, away), 'data')).toEqual(at(secret, 'data'))
      const tested = await cluster.helm(['test', RELEASE, '-n', home])
      expect(tested.ok, tested.stderr).toBe(true)
      const left = (await cluster.listAll('all,configmaps,networkpolicies,persistentvolumeclaims', home))
        .map(object => textAt(object, 'metadata.name'))
        .filter(name => name.startsWith(NAME))
      expect(left).toEqual([])
    })
  })
