import { describe, expect, it } from 'vitest'
import { MINIMAL, NAME, podOf, render, type Values } from '../support/chart.ts'
import { at, type Manifest, valueAt } from '../support/manifests.ts'
import { HELM, has } from '../support/tools.ts'

const gateway = (more: object) => ({ ...MINIMAL, gateway: more })
const pod = (more: object) => ({ ...MINIMAL, pod: more })
const withConsole = (more: object = {}) => ({ ...MINIMAL, console: { enabled: true, ...more } })
const monitoring = (more: object) => ({ ...MINIMAL, monitoring: { trustApis: true, ...more } })
const claim = (persistence: object) => withConsole({ persistence })

const deployment = (values: Values) => render(values).get('Deployment', '-gateway')
const gatewayPod = (values: Values) => podOf(render(values), 'gateway').spec
const container = (values: Values) => at(gatewayPod(values), 'containers', '0')
const account = (values: Values) => render(values).get('ServiceAccount')
const volumeClaim = (values: Values) => render(values).get('PersistentVolumeClaim')
const of = (kind: string) => (values: Values) => render(values).get(kind)

const DISK = { matchLabels: { disk: 'one' } }
const SLEEP = { preStop: { sleep: { seconds: 7 } } }
const SNAPSHOT = { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: 'nightly' }

const BARE = withConsole()
const PODS = monitoring({ podMonitor: { enabled: true } })
const SERVICES = monitoring({ serviceMonitor: { enabled: true } })

/** A field, values without it, values with it, the object that has it, and what it is. */
const FIELDS: readonly (readonly [string, Values, Values, (values: Values) => Manifest, unknown])[] = [
  ['metadata.annotations', MINIMAL, gateway({ annotations: { a: 'b' } }), deployment, { a: 'b' }],
  ['metadata.labels.tier', MINIMAL, gateway({ labels: { tier: 'edge' } }), deployment, 'edge'],
  ['spec.progressDeadlineSeconds', MINIMAL, gateway({ progressDeadlineSeconds: 90 }), deployment, 90],
  ['metadata.annotations', BARE, withConsole({ annotations: { a: 'b' } }), of('StatefulSet'), { a: 'b' }],
  ['metadata.labels.tier', BARE, withConsole({ labels: { tier: 'keys' } }), of('StatefulSet'), 'keys'],
  ['dnsPolicy', MINIMAL, pod({ dnsPolicy: 'Default' }), gatewayPod, 'Default'],
  ['dnsConfig', MINIMAL, pod({ dnsConfig: { searches: ['x'] } }), gatewayPod, { searches: ['x'] }],
  ['schedulerName', MINIMAL, pod({ schedulerName: 'packing' }), gatewayPod, 'packing'],
  ['hostUsers', MINIMAL, pod({ hostUsers: false }), gatewayPod, false],
  ['lifecycle', MINIMAL, pod({ lifecycle: SLEEP }), container, SLEEP],
  ['metadata.labels.tier', BARE, claim({ labels: { tier: 'data' } }), volumeClaim, 'data'],
  ['spec.storageClassName', BARE, claim({ storageClassName: 'fast' }), volumeClaim, 'fast'],
  ['spec.storageClassName', BARE, claim({ storageClassName: '-' }), volumeClaim, ''],
  ['spec.selector', BARE, claim({ selector: DISK }), volumeClaim, DISK],
  ['spec.dataSource', BARE, claim({ dataSource: SNAPSHOT }), volumeClaim, SNAPSHOT],
  ['metadata.labels.tier', MINIMAL, { ...MINIMAL, serviceAccount: { labels: { tier: 'a' } } }, account, 'a'],
  [
    'spec.sampleLimit',
    PODS,
    monitoring({ podMonitor: { enabled: true, sampleLimit: 5000 } }),
    of('PodMonitor'),
    5000,
  ],
  [
    'spec.sampleLimit',
    SERVICES,
    monitoring({ serviceMonitor: { enabled: true, sampleLimit: 5000 } }),
    of('ServiceMonitor'),
    5000,
  ],
]

describe.skipIf(!has(HELM))('a value of a workload reaches its field, which is left out without it', () => {
  it.each(FIELDS)('%s', (path, bare, values, objectOf, expected) => {
    expect(valueAt(objectOf(values), path)).toEqual(expected)
    expect(valueAt(objectOf(bare), path)).toBeUndefined()
  })
})

describe.skipIf(!has(HELM))('the image of a plane', () => {
  const imageOf = (values: Values, plane: 'gateway' | 'console') =>
    valueAt(podOf(render(values), plane).spec, 'containers', '0', 'image')
  const DIGEST = `sha256:${'0'.repeat(64)}`

  it('overrides single values of the common one', () => {
    const values = { ...withConsole(), gateway: { image: { tag: '0.2.0', pullPolicy: 'Always' } } }
    expect(imageOf(values, 'gateway')).toBe('registry.example.com/postern:0.2.0')
    expect(imageOf(values, 'console')).toBe('registry.example.com/postern:0.1.0')
    expect(container(values)['imagePullPolicy']).toBe('Always')
  })

  it('with a tag replaces a common digest', () => {
    const image = { ...MINIMAL.image, digest: DIGEST }
    const values = { ...withConsole(), image, gateway: { image: { tag: '0.2.0' } } }
    expect(imageOf(values, 'gateway')).toBe('registry.example.com/postern:0.2.0')
    expect(imageOf(values, 'console')).toBe(`registry.example.com/postern@${DIGEST}`)
  })

  it('is enough, and is what the test runs', () => {
    const own = { repository: 'registry.example.com/mine' }
    const values = { ...gateway({ image: own }), image: {} }
    expect(imageOf(values, 'gateway')).toBe('registry.example.com/mine:0.1.0')
    expect(valueAt(render(values).get('Pod'), 'spec.containers', '0', 'image')).toBe(
      'registry.example.com/mine:0.1.0',
    )
  })
})

describe.skipIf(!has(HELM))('a disruption budget', () => {
  it('counts the pods that stay instead, if maxUnavailable is null', () => {
    const budget = { maxUnavailable: null, minAvailable: '50%' }
    const spec = at(render(gateway({ podDisruptionBudget: budget })).get('PodDisruptionBudget'), 'spec')
    expect(spec['minAvailable']).toBe('50%')
    expect(spec).not.toHaveProperty('maxUnavailable')
  })
})

describe.skipIf(!has(HELM))('a ServiceAccount', () => {
  it('has no mounted token, unless the values want one', () => {
    const automount = (values: Values) => [
      account(values)['automountServiceAccountToken'],
      gatewayPod(values)['automountServiceAccountToken'],
    ]
    expect(automount(MINIMAL)).toEqual([false, false])
    expect(automount({ ...MINIMAL, serviceAccount: { automount: true } })).toEqual([true, true])
  })
})

describe.skipIf(!has(HELM))('an update that stops all pods first', () => {
  it('has no numbers of a rolling one, which Kubernetes refuses', () => {
    expect(at(deployment(gateway({ strategy: { type: 'Recreate' } })), 'spec.strategy')).toEqual({
      type: 'Recreate',
    })
  })
})

describe.skipIf(!has(HELM))('a sleep before the signal', () => {
  it('extends the grace period', () => {
    expect(gatewayPod(pod({ lifecycle: SLEEP }))['terminationGracePeriodSeconds']).toBe(47)
    const { ok, stderr } = render(pod({ lifecycle: SLEEP, terminationGracePeriodSeconds: 46 }))
    expect([ok, stderr]).toEqual([false, expect.stringContaining('set at least 47')])
  })
})

describe.skipIf(!has(HELM))('objects of another namespace', () => {
  it.each(['podMonitor', 'serviceMonitor'])('%s selects the release’s', monitor => {
    const rendering = render(monitoring({ [monitor]: { enabled: true, namespace: 'watch' } }), {
      args: ['--namespace', 'edge'],
    })
    const object = rendering.get(monitor === 'podMonitor' ? 'PodMonitor' : 'ServiceMonitor')
    expect(valueAt(object, 'metadata.namespace')).toBe('watch')
    expect(valueAt(object, 'spec.namespaceSelector')).toEqual({ matchNames: ['edge'] })
    expect(valueAt(rendering.get('Deployment'), 'metadata.namespace')).toBe('edge')
  })

  it('dashboards, where Grafana is', () => {
    const dashboards = { enabled: true, namespace: 'grafana', grafanaOperator: { enabled: true } }
    const rendering = render(monitoring({ dashboards }))
    const made = [...rendering.all('ConfigMap'), ...rendering.all('GrafanaDashboard')].filter(object =>
      String(valueAt(object, 'metadata.name')).startsWith(`${NAME}-dashboard-`),
    )
    expect(made).toHaveLength(6)
    expect(new Set(made.map(object => valueAt(object, 'metadata.namespace')))).toEqual(new Set(['grafana']))
  })
})

/** A contradiction, and part of the error, which names what to set. */
const CONTRADICTIONS: readonly (readonly [string, Values, string])[] = [
  [
    'two kinds of disruption budget',
    gateway({ podDisruptionBudget: { minAvailable: 1 } }),
    'gateway.podDisruptionBudget has minAvailable and maxUnavailable, and Kubernetes takes one: set maxUnavailable to null',
  ],
  [
    'a budget of nothing',
    gateway({ podDisruptionBudget: { maxUnavailable: null } }),
    'set maxUnavailable or minAvailable, or enabled to false',
  ],
  [
    'a budget that no node can be drained under',
    gateway({ podDisruptionBudget: { maxUnavailable: null, minAvailable: 2 } }),
    'gateway.podDisruptionBudget.minAvailable is 2 of 2 pods, so no node could be drained',
  ],
  ['no DNS at all', pod({ dnsPolicy: 'None' }), 'set pod.dnsConfig.nameservers'],
  [
    'a deadline before a pod counts as available',
    gateway({ progressDeadlineSeconds: 5 }),
    'gateway.progressDeadlineSeconds is 5, and a pod is available only after minReadySeconds, 5',
  ],
  [
    'a source for a claim that exists',
    claim({ existingClaim: 'mine', dataSource: SNAPSHOT }),
    'console.persistence.dataSource has no effect on the claim mine',
  ],
]

describe.skipIf(!has(HELM))('values that contradict each other are rejected', () => {
  it.each(CONTRADICTIONS)('%s', (_, values, sentence) => {
    const { ok, stderr } = render(values)
    expect(ok).toBe(false)
    expect(stderr.replace(/\s+/g, ' ')).toContain(sentence)
  })

  it.each([
    ['an unknown DNS policy', pod({ dnsPolicy: 'Host' }), 'dnsPolicy'],
    ['an unknown hook', pod({ lifecycle: { onStop: {} } }), 'onStop'],
    ['an unknown value of an image', gateway({ image: { name: 'x' } }), 'name'],
  ])('%s', (_, values, name) => {
    const { ok, stderr } = render(values)
    expect([ok, stderr]).toEqual([false, expect.stringContaining(name)])
  })
})
