import { describe, expect, it } from 'vitest'
import { MINIMAL, NAME, podOf, render, type Values } from '../support/chart.ts'
import { at, listAt, valueAt } from '../support/manifests.ts'
import { HELM, has } from '../support/tools.ts'

const with_ = (gateway: object, more: Values = {}) => ({ ...MINIMAL, ...more, gateway })
const POSTGRES = {
  config: MINIMAL.config,
  secrets: { ...MINIMAL.secrets, database: { url: { existingSecret: 'db' } } },
}

describe.skipIf(!has(HELM))('a gateway of nothing but the required values', () => {
  const spec = () => at(render(MINIMAL).get('Deployment'), 'spec')

  it('is two pods, replaced so that never fewer than wanted are there', () => {
    expect(spec()).toMatchObject({
      replicas: 2,
      minReadySeconds: 5,
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0, maxSurge: '25%' } },
    })
  })

  it('loses one pod at a time when nodes are emptied, and none that is broken holds that up', () => {
    expect(at(render(MINIMAL).get('PodDisruptionBudget'), 'spec')).toMatchObject({
      maxUnavailable: 1,
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
      selector: { matchLabels: at(spec(), 'selector.matchLabels') },
    })
  })

  it('is spread over zones and hosts, each version by itself', () => {
    const spread = listAt(podOf(render(MINIMAL), 'gateway').spec, 'topologySpreadConstraints')
    expect(spread.map(({ topologyKey }) => topologyKey)).toEqual([
      'topology.kubernetes.io/zone',
      'kubernetes.io/hostname',
    ])
    for (const constraint of spread) {
      expect(constraint).toMatchObject({
        whenUnsatisfiable: 'ScheduleAnyway',
        labelSelector: { matchLabels: at(spec(), 'selector.matchLabels') },
        matchLabelKeys: ['pod-template-hash'],
      })
    }
  })

  it('comes without console, autoscaling, policies, monitors and routes', () => {
    const kinds = new Set(render(MINIMAL).objects.map(({ kind }) => kind))
    expect([...kinds].sort()).toEqual([
      'ConfigMap',
      'Deployment',
      'Pod',
      'PodDisruptionBudget',
      'Secret',
      'Service',
      'ServiceAccount',
    ])
  })
})

describe.skipIf(!has(HELM))('the spread', () => {
  it('is wholly replaced by one’s own', () => {
    const own = [{ maxSkew: 2, topologyKey: 'rack', whenUnsatisfiable: 'DoNotSchedule' }]
    const values = with_({ pod: { topologySpreadConstraints: own } })
    expect(podOf(render(values), 'gateway').spec['topologySpreadConstraints']).toEqual(own)
  })
})

describe.skipIf(!has(HELM))('a pod is given the time that its drain takes', () => {
  it.each([
    ['by default', {}, 40],
    ['after other times', { delayMs: 10_000, timeoutMs: 45_000 }, 60],
    ['rounded up', { delayMs: 1, timeoutMs: 0 }, 6],
  ])('%s', (_, drain, seconds) => {
    const rendering = render({ ...MINIMAL, config: { ...MINIMAL.config, drain } })
    expect(podOf(rendering, 'gateway').spec['terminationGracePeriodSeconds']).toBe(seconds)
  })

  it('or more', () => {
    const rendering = render({ ...MINIMAL, pod: { terminationGracePeriodSeconds: 90 } })
    expect(podOf(rendering, 'gateway').spec['terminationGracePeriodSeconds']).toBe(90)
  })
})

describe.skipIf(!has(HELM))('autoscaling', () => {
  const autoscaling = { enabled: true, minReplicas: 3, maxReplicas: 9 }

  it('sets the number of pods, which the deployment then leaves alone', () => {
    const rendering = render(with_({ autoscaling }))
    expect(at(rendering.get('Deployment'), 'spec')).not.toHaveProperty('replicas')
    expect(rendering.get('HorizontalPodAutoscaler')).toMatchObject({
      apiVersion: 'autoscaling/v2',
      spec: {
        scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: `${NAME}-gateway` },
        minReplicas: 3,
        maxReplicas: 9,
        behavior: { scaleDown: { stabilizationWindowSeconds: 300 } },
      },
    })
  })

  it('goes by processor time and by metrics of one’s own', () => {
    const spec = at(render({}, { files: ['everything-on.yaml'] }).get('HorizontalPodAutoscaler'), 'spec')
    expect(listAt(spec, 'metrics').map(({ type }) => type)).toEqual(['Resource', 'Pods'])
  })

  it('keeps the disruption budget', () => {
    expect(render(with_({ replicas: 1, autoscaling })).all('PodDisruptionBudget')).toHaveLength(1)
    const fromOne = { ...autoscaling, minReplicas: 1 }
    expect(render(with_({ autoscaling: fromOne })).all('PodDisruptionBudget')).toEqual([])
  })
})

describe.skipIf(!has(HELM))('one gateway alone', () => {
  it('has no disruption budget, which would keep its node from ever being emptied', () => {
    expect(render(with_({ replicas: 1 })).all('PodDisruptionBudget')).toEqual([])
  })
})

describe.skipIf(!has(HELM))('a console over SQLite', () => {
  const rendering = () => render({ ...MINIMAL, console: { enabled: true } })

  it('is one pod that a StatefulSet never runs twice, on a volume that outlives the release', () => {
    expect(at(rendering().get('StatefulSet'), 'spec')['replicas']).toBe(1)
    const claim = rendering().get('PersistentVolumeClaim')
    expect(claim).toMatchObject({
      metadata: { name: `${NAME}-console-data`, annotations: { 'helm.sh/resource-policy': 'keep' } },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
    })
    const { spec } = podOf(rendering(), 'console')
    expect(listAt(spec, 'volumes')).toContainEqual({
      name: 'data',
      persistentVolumeClaim: { claimName: `${NAME}-console-data` },
    })
    expect(valueAt(spec, 'containers', '0', 'volumeMounts')).toContainEqual({
      name: 'data',
      mountPath: '/var/lib/postern',
    })
  })

  it('takes a volume of one’s own', () => {
    const values = { ...MINIMAL, console: { enabled: true, persistence: { existingClaim: 'mine' } } }
    expect(render(values).all('PersistentVolumeClaim')).toEqual([])
    expect(JSON.stringify(podOf(render(values), 'console').spec)).toContain('"claimName":"mine"')
  })
})

describe.skipIf(!has(HELM))('a console over PostgreSQL', () => {
  it('is as many pods as wanted, with a disruption budget, and without a volume', () => {
    const rendering = render({ ...POSTGRES, console: { enabled: true, replicas: 3 } })
    expect(at(rendering.get('Deployment', '-console'), 'spec')['replicas']).toBe(3)
    expect(rendering.all('StatefulSet')).toEqual([])
    expect(rendering.all('PersistentVolumeClaim')).toEqual([])
    expect(rendering.get('PodDisruptionBudget', '-console')).toBeDefined()
  })
})
