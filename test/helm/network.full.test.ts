import { describe, expect, it } from 'vitest'
import type { Plane } from '../../src/config/rules.ts'
import { MINIMAL, NAME, podOf, type Rendering, render, type Values, WITH_CONSOLE } from '../support/chart.ts'
import { at, listAt, textAt, valueAt } from '../support/manifests.ts'
import { HELM, has } from '../support/tools.ts'

const ON = { networkPolicy: { enabled: true } }
const GATEWAYS = { podSelector: { matchLabels: labelsOf('gateway') } }
const CONSOLE = { podSelector: { matchLabels: labelsOf('console') } }
const TEST = { podSelector: { matchLabels: labelsOf('test') } }
const MONITORING = { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } } }
const KUBE_SYSTEM = { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'kube-system' } } }

function labelsOf(component: string): Record<string, string> {
  return {
    'app.kubernetes.io/name': 'postern',
    'app.kubernetes.io/instance': 'acme',
    'app.kubernetes.io/component': component,
  }
}

/** Rules as [ports, peers]; `any peer` if a rule names no peer. */
function rulesOf(rendering: Rendering, plane: Plane, direction: 'ingress' | 'egress'): [unknown, unknown][] {
  const policy = rendering.get('NetworkPolicy', `-${plane}`)
  return listAt(policy, `spec.${direction}`).map(rule => [
    listAt(rule, 'ports').map(({ port, protocol }) => (protocol === 'UDP' ? `${port}/udp` : port)),
    rule[direction === 'ingress' ? 'from' : 'to'] ?? 'any peer',
  ])
}

const egressOf = (values: Values, plane: Plane = 'gateway') =>
  rulesOf(render({ ...values, ...ON }), plane, 'egress').slice(1)

describe.skipIf(!has(HELM))('the NetworkPolicy of a plane', () => {
  it('is created only if enabled', () => {
    expect(render(MINIMAL).all('NetworkPolicy')).toEqual([])
  })

  it('governs both directions', () => {
    for (const policy of render({ ...MINIMAL, ...ON }).all('NetworkPolicy')) {
      expect(valueAt(policy, 'spec.policyTypes')).toEqual(['Ingress', 'Egress'])
    }
  })

  it('has one beside it for the pod of the test, which reaches the planes, and which nothing reaches', () => {
    const policy = render({ ...MINIMAL, ...ON }).get('NetworkPolicy', '-test')
    expect(at(policy, 'spec')).toMatchObject({ podSelector: TEST.podSelector, ingress: [] })
    const ports = listAt(policy, 'spec.egress').map(rule => listAt(rule, 'ports').map(({ port }) => port))
    expect(ports).toEqual([
      [53, 53],
      [8080, 9090],
    ])
  })

  it('allows clients to http, Prometheus to ops, and the release’s test to both', () => {
    const ingress = [{ namespaceSelector: { matchLabels: { name: 'ingress' } } }]
    const values = { ...MINIMAL, networkPolicy: { enabled: true, gatewayFrom: ingress } }
    expect(rulesOf(render(values), 'gateway', 'ingress')).toEqual([
      [[8080], ingress],
      [[9090], [MONITORING]],
      [[8080, 9090], [TEST]],
    ])
  })

  it('allows only named peers to reach the check listener', () => {
    const proxy = [{ podSelector: { matchLabels: { app: 'nginx' } } }]
    const rules = (checkFrom: object[]) => {
      const config = { ...MINIMAL.config, gateway: { check: { port: 8083, proxy: 'nginx' } } }
      const networkPolicy = { enabled: true, checkFrom }
      return rulesOf(render({ ...MINIMAL, config, networkPolicy }), 'gateway', 'ingress')
    }
    expect(rules(proxy)).toContainEqual([[8083], proxy])
    expect(rules([]).filter(([ports]) => String(ports).includes('8083'))).toEqual([])
    expect(
      rulesOf(
        render({ ...MINIMAL, networkPolicy: { enabled: true, checkFrom: proxy } }),
        'gateway',
        'ingress',
      ),
    ).not.toContainEqual([expect.anything(), proxy])
  })

  it('has a Service of the cluster alone for the check listener, if there is one', () => {
    const names = (rendering: Rendering) =>
      rendering.all('Service').map(service => textAt(service, 'metadata.name'))
    expect(names(render(MINIMAL)).filter(name => name.endsWith('-check'))).toEqual([])
    const config = { ...MINIMAL.config, gateway: { check: { port: 8090, proxy: 'nginx' } } }
    const service = { type: 'LoadBalancer' }
    const rendering = render({ ...MINIMAL, config, gateway: { service, checkService: { port: 8091 } } })
    const check = rendering.get('Service', '-check')
    expect([textAt(check, 'spec.type'), listAt(check, 'spec.ports')]).toEqual([
      'ClusterIP',
      [{ name: 'check', port: 8091, targetPort: 'check', protocol: 'TCP', appProtocol: 'http' }],
    ])
    const [container] = listAt(rendering.get('Deployment', '-gateway'), 'spec.template.spec.containers')
    expect(container && listAt(container, 'ports')).toContainEqual({
      name: 'check',
      containerPort: 8090,
      protocol: 'TCP',
    })
  })

  it('allows the console, but no gateway, to reach the identity provider', () => {
    const to = [{ ipBlock: { cidr: '192.0.2.0/24' } }]
    const at = (issuer: string, identityProvider: object = {}) => ({
      ...MINIMAL,
      config: {
        ...MINIMAL.config,
        console: { publicUrl: 'https://keys', oidc: { issuer, clientId: 'postern' } },
      },
      console: { enabled: true },
      networkPolicy: { enabled: true, identityProvider },
    })
    const egress = (values: Values, plane: Plane = 'console') => rulesOf(render(values), plane, 'egress')
    expect(egress(at('https://login.example.com'))).toContainEqual([[443], 'any peer'])
    expect(egress(at('https://login.example.com:8443/realms/x', { to }))).toContainEqual([[8443], to])
    expect(egress(at('https://login.example.com', { to, ports: [3128] }))).toContainEqual([[3128], to])
    expect(egress(at('https://login.example.com', { to }), 'gateway')).not.toContainEqual([[443], to])
  })

  it('allows only gateways to reach the console’s internal listener, and only named peers its public one', () => {
    const people = [{ ipBlock: { cidr: '10.1.0.0/16' } }]
    const edge = [{ namespaceSelector: { matchLabels: { name: 'edge' } } }]
    const rules = (values: Values, networkPolicy: object) =>
      rulesOf(
        render({
          ...MINIMAL,
          ...values,
          console: { enabled: true },
          networkPolicy: { enabled: true, consoleFrom: people, ...networkPolicy },
        }),
        'console',
        'ingress',
      )
    const ops = [[9090], [MONITORING]]
    expect(rules({ tests: { enabled: false } }, {})).toEqual([[[8081], people], [[8082], [GATEWAYS]], ops])
    expect(rules({}, { internalFrom: edge })).toEqual([
      [[8081], people],
      [[8082], [GATEWAYS, ...edge]],
      ops,
      [[8081, 9090], [TEST]],
    ])
    const alone = { gateway: { enabled: false }, tests: { enabled: false } }
    expect(rules(alone, { internalFrom: edge })).toEqual([[[8081], people], [[8082], edge], ops])
    expect(rules(alone, {})).toEqual([[[8081], people], ops])
  })

  it('allows egress to DNS, Redis and the upstream only', () => {
    const values = { ...MINIMAL, ...ON }
    expect(rulesOf(render(values), 'gateway', 'egress')).toEqual([
      [['53/udp', 53], [KUBE_SYSTEM]],
      [[6379], 'any peer'],
      [[8080], 'any peer'],
    ])
  })

  it('allows gateways, but not the console, to reach the collector of usage', () => {
    const to = [{ namespaceSelector: { matchLabels: { name: 'collectors' } } }]
    const values = (usageExport: object = {}) => ({
      ...MINIMAL,
      console: { enabled: true },
      config: { ...MINIMAL.config, usage: { export: { url: 'http://collector:8123/usage' } } },
      networkPolicy: { enabled: true, usageExport },
    })
    const egress = (plane: Plane, given: object) => rulesOf(render(values(given)), plane, 'egress')
    expect(egress('gateway', { to })).toContainEqual([[8123], to])
    expect(egress('gateway', { to, ports: [3128] })).toContainEqual([[3128], to])
    expect(egress('console', { to })).not.toContainEqual([[8123], to])
  })

  it('allows the gateway to reach this release’s console, on its container port', () => {
    const values = {
      ...MINIMAL,
      console: { enabled: true },
      config: { ...MINIMAL.config, console: { internal: { port: 9000 } } },
    }
    expect(egressOf(values).at(-1)).toEqual([[9000], [CONSOLE]])
  })

  it.each([
    ['http://workspaces', 80],
    ['https://workspaces', 443],
    ['https://workspaces:8443/base', 8443],
    ['http://[2001:db8::1]:81', 81],
    ['HTTPS://workspaces/base:9', 443],
  ])('reads the port of the upstream from %s', (url, port) => {
    expect(egressOf({ ...MINIMAL, config: { upstream: { url } } }).at(-1)).toEqual([[port], 'any peer'])
  })

  it('uses the ports of the upstream addresses', () => {
    const upstream = { url: 'http://workspaces', addresses: ['10.0.0.5:8081', '10.0.0.6:8082'] }
    expect(egressOf({ ...MINIMAL, config: { upstream } }).at(-1)).toEqual([[8081, 8082], 'any peer'])
  })

  it('uses the port of Redis if its address is no secret', () => {
    const config = { ...MINIMAL.config, redis: { url: 'rediss://redis:6380' } }
    const { keys } = MINIMAL.secrets
    expect(egressOf({ ...MINIMAL, config, secrets: { keys } })[0]).toEqual([[6380], 'any peer'])
  })

  it('allows the gateway to reach a configured key service', () => {
    expect(
      rulesOf(render({}, { files: ['bring-your-own-keys-values.yaml'] }), 'gateway', 'egress').at(-1),
    ).toEqual([[443], 'any peer'])
  })

  it('allows the console to reach Redis and PostgreSQL, but not the upstream', () => {
    expect(rulesOf(render({}, { files: ['console-postgres-values.yaml'] }), 'console', 'egress')).toEqual([
      [['53/udp', 53], [KUBE_SYSTEM]],
      [[6379], 'any peer'],
      [[6432], [{ ipBlock: { cidr: '10.20.0.0/16' } }]],
    ])
  })

  it('has no database rule for SQLite', () => {
    expect(egressOf({ ...MINIMAL, console: { enabled: true } }, 'console')).toEqual([[[6379], 'any peer']])
  })

  it('allows the console to reach the webhook receiver', () => {
    const config = { ...MINIMAL.config, console: { webhook: { url: 'https://hooks.example.com/x' } } }
    const secrets = { ...MINIMAL.secrets, console: { webhook: { secret: { existingSecret: 'hooks' } } } }
    const values = { ...MINIMAL, config, secrets, console: { enabled: true } }
    expect(egressOf(values, 'console')).toContainEqual([[443], 'any peer'])
    expect(egressOf(values)).not.toContainEqual([[443], 'any peer'])
  })

  it('allows egress to the OpenTelemetry collector', () => {
    const tracing = { endpoint: 'http://collector:4318' }
    expect(egressOf({ ...MINIMAL, config: { ...MINIMAL.config, tracing } })).toContainEqual([
      [4318],
      'any peer',
    ])
  })

  it('allows egress to Sentinels and the servers they name', () => {
    const egress = rulesOf(render({}, { files: ['redis-sentinel-values.yaml'] }), 'gateway', 'egress')
    expect(egress).toContainEqual([[6379], 'any peer'])
    expect(egress).toContainEqual([[26_379], 'any peer'])
  })

  it('allows egress to the nodes of a cluster', () => {
    const egress = rulesOf(render({}, { files: ['redis-cluster-tls-values.yaml'] }), 'gateway', 'egress')
    expect(egress).toContainEqual([[6380], 'any peer'])
  })

  it('has configured peers of the identity provider and extra rules', () => {
    const egress = rulesOf(render({}, { files: ['everything-on-values.yaml'] }), 'console', 'egress')
    expect(egress).toContainEqual([[443], [{ ipBlock: { cidr: '192.0.2.0/24' } }]])
    expect(egress).toContainEqual([[4318], [{ podSelector: { matchLabels: { app: 'collector' } } }]])
  })
})

describe.skipIf(!has(HELM))('access from outside', () => {
  const rendering = () => render({}, { files: ['everything-on-values.yaml'] })

  it('the Service of a plane has one port, not that of probes and metrics', () => {
    for (const service of rendering().all('Service')) {
      // For the release's test, inside the cluster.
      if (textAt(service, 'metadata.name').endsWith('-test-ops')) continue
      const port = textAt(service, 'metadata.name').endsWith('-internal') ? 'internal' : 'http'
      expect(listAt(service, 'spec.ports').map(({ targetPort }) => targetPort)).toEqual([port])
    }
  })

  it('the internal listener has a ClusterIP Service by default, for every type of the console’s own Service', () => {
    const console = { enabled: true, service: { type: 'LoadBalancer' } }
    const internal = render({ ...MINIMAL, console }).get('Service', '-console-internal')
    expect(at(internal, 'spec')).toMatchObject({ type: 'ClusterIP' })
    expect(listAt(internal, 'spec.ports')).toMatchObject([{ port: 8082, targetPort: 'internal' }])
  })

  it('a route leads only to the Service of its own plane', () => {
    for (const plane of ['gateway', 'console']) {
      const route = rendering().get('HTTPRoute', `-${plane}`)
      const backends = listAt(route, 'spec.rules').flatMap(rule => listAt(rule, 'backendRefs'))
      expect(backends).toEqual([{ name: `${NAME}-${plane}`, port: 80 }])
      const ingress = rendering().get('Ingress', `-${plane}`)
      const paths = listAt(ingress, 'spec.rules').flatMap(rule => listAt(rule, 'http.paths'))
      expect(paths.map(path => at(path, 'backend.service'))).toEqual([
        { name: `${NAME}-${plane}`, port: { name: 'http' } },
      ])
    }
  })

  it('a route keeps its rules, parents and host names', () => {
    expect(at(rendering().get('HTTPRoute', '-gateway'), 'spec')).toMatchObject({
      parentRefs: [{ name: 'public', namespace: 'gateways' }],
      hostnames: ['api.example.com'],
      rules: [
        { matches: [{ path: { type: 'PathPrefix', value: '/api/v1' } }], timeouts: { request: '90s' } },
      ],
    })
  })

  it('the internal listener has no route from outside, unless configured', () => {
    const values = {
      ...MINIMAL,
      console: { enabled: true, ingress: { enabled: true, hosts: [{ host: 'k' }] } },
    }
    const { objects } = render(values)
    const ways = [
      rendering().get('HTTPRoute', '-console'),
      ...objects.filter(object => object['kind'] === 'Ingress'),
    ].map(way => JSON.stringify(way['spec']))
    expect(ways).toHaveLength(2)
    for (const way of ways) {
      expect(way).toMatch(/"name":"[a-z-]+-console"/)
      expect(way).not.toMatch(/-internal"|8082/)
    }
  })
})

describe.skipIf(!has(HELM))('address families', () => {
  const everyService = {
    ...WITH_CONSOLE,
    config: { ...MINIMAL.config, gateway: { check: { port: 8083, proxy: 'nginx' } } },
    monitoring: { podMonitor: { enabled: false }, serviceMonitor: { enabled: true } },
  }
  const args = ['--api-versions', 'monitoring.coreos.com/v1/ServiceMonitor']
  const familiesOf = (values: Values) =>
    render({ ...everyService, ...values }, { args })
      .all('Service')
      .map(service => [
        textAt(service, 'metadata.name'),
        valueAt(service, 'spec.ipFamilyPolicy'),
        valueAt(service, 'spec.ipFamilies'),
      ])

  it('of every Service are those of the cluster, unless the values name them', () => {
    const names = familiesOf({}).map(([name]) => name)
    expect(names.length).toBeGreaterThanOrEqual(6)
    expect(familiesOf({})).toEqual(names.map(name => [name, undefined, undefined]))
    expect(familiesOf({ ipFamilyPolicy: 'PreferDualStack' })).toEqual(
      names.map(name => [name, 'PreferDualStack', undefined]),
    )
    expect(familiesOf({ ipFamilyPolicy: 'SingleStack', ipFamilies: ['IPv6'] })).toEqual(
      names.map(name => [name, 'SingleStack', ['IPv6']]),
    )
  })

  it('of one Service can differ, by its own spec', () => {
    const spec = { ipFamilyPolicy: 'RequireDualStack', ipFamilies: ['IPv6', 'IPv4'] }
    const families = familiesOf({
      ipFamilyPolicy: 'SingleStack',
      ipFamilies: ['IPv4'],
      gateway: { service: { spec } },
    })
    expect(families.find(([name]) => name === `${NAME}-gateway`)?.slice(1)).toEqual([
      'RequireDualStack',
      ['IPv6', 'IPv4'],
    ])
    expect(families.filter(([, policy]) => policy === 'SingleStack')).toHaveLength(families.length - 1)
  })

  it('are both of them where the pods listen', () => {
    const rendering = render(WITH_CONSOLE)
    const [container] = podOf(rendering, 'console').spec['containers'] as { env: { name: string }[] }[]
    expect(container?.env).toContainEqual({ name: 'POSTERN_CONSOLE_HOST', value: '::' })
  })
})
