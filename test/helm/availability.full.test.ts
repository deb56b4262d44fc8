import { describe, expect, it } from 'vitest'
import { MINIMAL, NAME, podOf, render, settingsOf, type Values } from '../support/chart.ts'
import { at, listAt, valueAt } from '../support/manifests.ts'
import { HELM, has } from '../support/tools.ts'

const with_ = (gateway: object, more: Values = {}) => ({ ...MINIMAL, ...more, gateway })
const POSTGRES = {
  image: MINIMAL.image,
  config: MINIMAL.config,
  secrets: { ...MINIMAL.secrets, database: { url: { existingSecret: 'db' } } },
}

describe.skipIf(!has(HELM))('a gateway with only the required values', () => {
  const spec = () => at(render(MINIMAL).get('Deployment'), 'spec')

  it('has two pods, and never fewer during an update', () => {
    expect(spec()).toMatchObject({
      replicas: 2,
      minReadySeconds: 5,
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0, maxSurge: '25%' } },
    })
  })

  it('loses one pod at a time while nodes are drained, and a broken pod does not block the drain', () => {
    expect(at(render(MINIMAL).get('PodDisruptionBudget'), 'spec')).toMatchObject({
      maxUnavailable: 1,
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
      selector: { matchLabels: at(spec(), 'selector.matchLabels') },
    })
  })

  it('is spread over zones and hosts, for each version', () => {
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

  it('has no console, autoscaling, policies, monitors and routes', () => {
    const kinds = new Set(render(MINIMAL).objects.map(({ kind }) => kind))
    expect([...kinds].sort()).toEqual([
      'ConfigMap',
      'Deployment',
      'Pod',
      'PodDisruptionBudget',
      'Service',
      'ServiceAccount',
    ])
  })
})

describe.skipIf(!has(HELM))('the spread', () => {
  it('is replaced by configured constraints', () => {
    const own = [{ maxSkew: 2, topologyKey: 'rack', whenUnsatisfiable: 'DoNotSchedule' }]
    const values = with_({ pod: { topologySpreadConstraints: own } })
    expect(podOf(render(values), 'gateway').spec['topologySpreadConstraints']).toEqual(own)
  })
})

describe.skipIf(!has(HELM))('the grace period of a pod covers its drain', () => {
  it.each([
    ['by default', {}, 40],
    ['with other times', { delayMs: 10_000, timeoutMs: 45_000 }, 60],
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

  it('sets the number of pods; the Deployment has no replicas', () => {
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

  it('adds pods at half a core, or at a share of the CPU request', () => {
    const targetOf = (more: object) => {
      const rendering = render(with_({ autoscaling: { ...autoscaling, ...more } }))
      return valueAt(rendering.get('HorizontalPodAutoscaler'), 'spec.metrics', '0', 'resource', 'target')
    }
    expect(targetOf({})).toEqual({ type: 'AverageValue', averageValue: '500m' })
    expect(targetOf({ targetCPUUtilizationPercentage: 80 })).toEqual({
      type: 'Utilization',
      averageUtilization: 80,
    })
  })

  it('uses processor time and configured metrics', () => {
    const spec = at(
      render({}, { files: ['everything-on-values.yaml'] }).get('HorizontalPodAutoscaler'),
      'spec',
    )
    expect(listAt(spec, 'metrics').map(({ type }) => type)).toEqual(['Resource', 'Pods'])
  })

  it('keeps the disruption budget', () => {
    expect(render(with_({ replicas: 1, autoscaling })).all('PodDisruptionBudget')).toHaveLength(1)
    const fromOne = { ...autoscaling, minReplicas: 1 }
    expect(render(with_({ autoscaling: fromOne })).all('PodDisruptionBudget')).toEqual([])
  })
})

describe.skipIf(!has(HELM))('the number of gateways', () => {
  const specOf = (gateway: object) => at(render(with_(gateway)).get('Deployment'), 'spec')

  it('is left to another autoscaler with null, and may be 0', () => {
    expect(specOf({ replicas: null })).not.toHaveProperty('replicas')
    expect(render(with_({ replicas: null })).all('PodDisruptionBudget')).toHaveLength(1)
    expect(specOf({ replicas: 0 })['replicas']).toBe(0)
  })

  it('divides rate limits while Redis is down, unless limits.replicas is set', () => {
    const policies = [{ name: 'minute', per: 'key', requests: 60, windowSeconds: 60 }]
    const replicasOf = (gateway: object, limits: object = { policies }) => {
      const values = { ...with_(gateway), config: { ...MINIMAL.config, limits } }
      return valueAt(settingsOf(render(values), 'gateway'), 'limits.replicas')
    }
    expect(replicasOf({ replicas: 4 })).toBe(4)
    expect(replicasOf({ autoscaling: { enabled: true, maxReplicas: 7 } })).toBe(7)
    expect(replicasOf({ replicas: 4 }, { policies, replicas: 9 })).toBe(9)
    expect(replicasOf({ replicas: 4 }, { plans: { free: { policies } } })).toBe(4)
    expect(replicasOf({ replicas: 4 }, {})).toBeUndefined()
  })
})

describe.skipIf(!has(HELM))('one gateway alone', () => {
  it('has no disruption budget, which would block the drain of its node', () => {
    expect(render(with_({ replicas: 1 })).all('PodDisruptionBudget')).toEqual([])
  })
})

describe.skipIf(!has(HELM))('a console with SQLite', () => {
  const rendering = () => render({ ...MINIMAL, console: { enabled: true } })

  it('is one pod of a StatefulSet, with a volume that is kept on uninstall', () => {
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

  it('can use an existing volume', () => {
    const values = { ...MINIMAL, console: { enabled: true, persistence: { existingClaim: 'mine' } } }
    expect(render(values).all('PersistentVolumeClaim')).toEqual([])
    expect(JSON.stringify(podOf(render(values), 'console').spec)).toContain('"claimName":"mine"')
  })
})

describe.skipIf(!has(HELM))('a console with PostgreSQL', () => {
  it('has the configured number of pods, a disruption budget, and no volume', () => {
    const rendering = render({ ...POSTGRES, console: { enabled: true, replicas: 3 } })
    expect(at(rendering.get('Deployment', '-console'), 'spec')['replicas']).toBe(3)
    expect(rendering.all('StatefulSet')).toEqual([])
    expect(rendering.all('PersistentVolumeClaim')).toEqual([])
    expect(rendering.get('PodDisruptionBudget', '-console')).toBeDefined()
  })
})
