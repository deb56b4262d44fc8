import { describe, expect, it } from 'vitest'
import { CI_FILES, MINIMAL, render, type Values, WITH_CONSOLE } from '../support/chart.ts'
import { at, textAt, valueAt } from '../support/manifests.ts'
import { HELM, has } from '../support/tools.ts'

const OWN = { labels: { team: 'edge' }, annotations: { owner: 'edge' } }
const TRUSTED = { trustApis: true }
const hosts = [{ host: 'api.example.com' }]
const route = { enabled: true, parentRefs: [{ name: 'public' }], ...OWN }

/** Each object that has labels and annotations of its own, with the values that make it. */
const OBJECTS: readonly (readonly [string, string, Values])[] = [
  ['Ingress', '-gateway', { ...MINIMAL, gateway: { ingress: { enabled: true, hosts, ...OWN } } }],
  [
    'Ingress',
    '-console',
    { ...WITH_CONSOLE, console: { enabled: true, ingress: { enabled: true, hosts, ...OWN } } },
  ],
  ['HTTPRoute', '-gateway', { ...MINIMAL, gateway: { httpRoute: route } }],
  ['HTTPRoute', '-console', { ...WITH_CONSOLE, console: { enabled: true, httpRoute: route } }],
  ['HorizontalPodAutoscaler', '', { ...MINIMAL, gateway: { autoscaling: { enabled: true, ...OWN } } }],
  ['PodMonitor', '', { ...MINIMAL, monitoring: { ...TRUSTED, podMonitor: { enabled: true, ...OWN } } }],
  [
    'ServiceMonitor',
    '',
    { ...MINIMAL, monitoring: { ...TRUSTED, serviceMonitor: { enabled: true, ...OWN } } },
  ],
  [
    'PrometheusRule',
    '',
    { ...MINIMAL, monitoring: { ...TRUSTED, prometheusRule: { enabled: true, ...OWN } } },
  ],
  [
    'Service',
    '-check',
    {
      ...MINIMAL,
      config: { ...MINIMAL.config, gateway: { check: { port: 8083, proxy: 'nginx' } } },
      gateway: { checkService: OWN },
    },
  ],
]

describe.skipIf(!has(HELM))('labels and annotations from the values', () => {
  it.each(OBJECTS)('%s %s', (kind, name, values) => {
    expect(at(render(values).get(kind, name), 'metadata')).toMatchObject(OWN)
  })

  it('the rules are created in the namespace of the Prometheus that reads them', () => {
    const prometheusRule = { enabled: true, namespace: 'monitoring' }
    const rendering = render({ ...MINIMAL, monitoring: { ...TRUSTED, prometheusRule } }, NAMESPACED)
    const rule = rendering.get('PrometheusRule')
    expect(textAt(rule, 'metadata.namespace')).toBe('monitoring')
    expect(JSON.stringify(at(rule, 'spec'))).toContain('namespace=\\"of-release\\"')
  })

  it('a disruption budget waits for pods that are not ready only if configured', () => {
    const policyOf = (podDisruptionBudget: object) =>
      valueAt(
        render({ ...MINIMAL, gateway: { podDisruptionBudget } }).get('PodDisruptionBudget'),
        'spec.unhealthyPodEvictionPolicy',
      )
    expect(policyOf({})).toBe('AlwaysAllow')
    expect(policyOf({ unhealthyPodEvictionPolicy: 'IfHealthyBudget' })).toBe('IfHealthyBudget')
  })
})

const NAMESPACED = { args: ['--namespace', 'of-release'] }

describe.skipIf(!has(HELM))('namespaceOverride', () => {
  it.each(CI_FILES)('%s: every object, selector, rule and address is of that namespace', file => {
    const backup = { console: { backup: { enabled: file.includes('console') } } }
    const { objects, stderr } = render(
      { namespaceOverride: 'elsewhere', ...backup, networkPolicy: { enabled: true } },
      { files: [file], ...NAMESPACED },
    )
    expect(objects.length, stderr).toBeGreaterThan(5)
    // extraObjects are rendered as written, without the chart's labels.
    for (const object of objects.filter(({ metadata }) => valueAt(metadata, 'labels') !== undefined)) {
      const name = `${textAt(object, 'kind')} ${textAt(object, 'metadata.name')}`
      expect([name, textAt(object, 'metadata.namespace')]).toEqual([name, 'elsewhere'])
    }
    expect(JSON.stringify(objects).includes('of-release')).toBe(false)
  })

  it('objects with a namespace of their own keep it, and monitors select the pods of that namespace', () => {
    const podMonitor = { enabled: true, namespace: 'monitoring' }
    const monitor = render(
      { ...MINIMAL, namespaceOverride: 'elsewhere', monitoring: { ...TRUSTED, podMonitor } },
      NAMESPACED,
    ).get('PodMonitor')
    expect(textAt(monitor, 'metadata.namespace')).toBe('monitoring')
    expect(valueAt(monitor, 'spec.namespaceSelector.matchNames')).toEqual(['elsewhere'])
  })
})

describe.skipIf(!has(HELM))('the example for KEDA', () => {
  it.each([{}, { fullnameOverride: 'edge' }, { nameOverride: 'api', namespaceOverride: 'elsewhere' }])(
    'asks for the job and the namespace that the monitor writes, with %j',
    values => {
      const monitoring = { ...TRUSTED, serviceMonitor: { enabled: true } }
      const rendering = render({ ...values, monitoring }, { files: ['keda-values.yaml'], ...NAMESPACED })
      const monitor = rendering.get('ServiceMonitor')
      const [job] = /"job","?[^}]*"replacement":"([^"]+)"|"replacement":"([^"]+)","targetLabel":"job"/
        .exec(JSON.stringify(at(monitor, 'spec.endpoints')))
        ?.slice(1)
        .filter(Boolean) ?? ['none']
      const query = textAt(rendering.get('ScaledObject'), 'spec.triggers.0.metadata.query')
      expect(query).toContain(`namespace="${textAt(monitor, 'metadata.namespace')}",job="${job}"`)
    },
  )
})
