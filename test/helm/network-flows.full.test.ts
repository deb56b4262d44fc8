import { BlockList, isIP } from 'node:net'
import { describe, expect, it } from 'vitest'
import type { Plane } from '../../src/config/rules.ts'
import { settings } from '../../src/config/settings.ts'
import { isPublicAddress } from '../../src/domain/form/address.ts'
import { MINIMAL, type Rendering, render, type Values } from '../support/chart.ts'
import { at, listAt, valueAt } from '../support/manifests.ts'
import { HELM, has } from '../support/tools.ts'

type Pod = Plane | 'backup'
interface Flow {
  readonly pod: Pod
  /** Part of the values, laid over those that every row shares. */
  readonly on: Values
  /** The values without the feature, where a port of the shared ones is that of the feature. */
  readonly off?: Values
  readonly port: number
  /** Of the settings, whose addresses the row covers. */
  readonly setting?: string | readonly string[]
}

const PRIVATE = '10.1.2.3'
const OF_SECRET = { existingSecret: 'x' }
const proxy = (name: string, value: string): Values => ({ pod: { extraEnv: [{ name, value }] } })
const config = (more: object): Values => ({ config: more })

/** What a plane asks for over the network: the port that its NetworkPolicy allows if the feature is on, and not otherwise. */
const FLOWS: Readonly<Record<string, Flow>> = {
  'the upstream': {
    pod: 'gateway',
    on: config({ upstream: { url: 'http://workspaces:4001' } }),
    port: 4001,
    setting: 'upstream.url',
  },
  'addresses of the upstream': {
    pod: 'gateway',
    on: config({ upstream: { url: 'http://workspaces', addresses: ['10.0.0.5:4002'] } }),
    port: 4002,
    setting: 'upstream.addresses',
  },
  'Redis, for a gateway': {
    pod: 'gateway',
    on: { ...config({ redis: { url: 'redis://redis:4003' } }), secrets: { redis: null } },
    port: 4003,
    setting: 'redis.url',
  },
  'Redis, for the console': {
    pod: 'console',
    on: { ...config({ redis: { url: 'redis://redis:4004' } }), secrets: { redis: null } },
    port: 4004,
  },
  Sentinels: {
    pod: 'gateway',
    on: {
      ...config({ redis: { sentinel: { name: 'main', urls: ['sentinel:4005'] } } }),
      secrets: { redis: null },
    },
    port: 4005,
    setting: 'redis.sentinel.urls',
  },
  'a Redis cluster': {
    pod: 'console',
    on: { ...config({ redis: { cluster: { urls: ['node-0:4006'] } } }), secrets: { redis: null } },
    port: 4006,
    setting: 'redis.cluster.urls',
  },
  'the Redis of a region': {
    pod: 'console',
    on: {
      config: { regions: [{ name: 'eu', redis: { url: 'redis://redis.eu:4007' } }] },
      secrets: { redis: null },
      gateway: { enabled: false },
    },
    port: 4007,
    setting: 'regions',
  },
  'the Redis of a region, from a Secret': {
    pod: 'console',
    on: {
      config: { regions: [{ name: 'eu' }] },
      secrets: { redis: null, regions: { eu: { redis: { url: OF_SECRET } } } },
      gateway: { enabled: false },
    },
    off: { secrets: { redis: null }, gateway: { enabled: false } },
    port: 6379,
  },
  PostgreSQL: {
    pod: 'console',
    on: config({ database: { url: 'postgres://postern@database:4008/postern' } }),
    port: 4008,
    setting: 'database.url',
  },
  'a PostgreSQL of several hosts': {
    pod: 'console',
    on: config({ database: { url: 'postgres://one:4009,two:4010/postern' } }),
    port: 4010,
  },
  'PostgreSQL, from a Secret': {
    pod: 'console',
    on: { secrets: { database: { url: OF_SECRET } } },
    port: 5432,
  },
  'PostgreSQL, for the backup': {
    pod: 'backup',
    on: config({ database: { url: 'postgres://postern@database:4011/postern' } }),
    port: 4011,
  },
  'the key service': {
    pod: 'gateway',
    on: config({ keyService: { url: 'https://keys.example.com:4012' } }),
    port: 4012,
    setting: 'keyService.url',
  },
  'sign-in': {
    pod: 'console',
    on: config({
      console: { publicUrl: 'https://k', oidc: { issuer: 'https://login.example.com:4013', clientId: 'p' } },
    }),
    port: 4013,
    setting: 'console.oidc.issuer',
  },
  'the operator’s webhook': {
    pod: 'console',
    on: {
      ...config({ console: { webhook: { url: 'https://hooks.example.com:4014' } } }),
      secrets: { console: { webhook: { secret: OF_SECRET } } },
    },
    port: 4014,
    setting: 'console.webhook.url',
  },
  'requests that people try': {
    pod: 'console',
    on: config({ console: { gatewayUrl: 'https://api.example.com:4021' } }),
    off: config({ console: { gatewayUrl: 'https://api.example.com:4021', triedRequestsPerMinute: 0 } }),
    port: 4021,
    setting: 'console.gatewayUrl',
  },
  'public keys for reports of leaked keys': {
    pod: 'console',
    on: config({ leaks: { enabled: true, github: { keysUrl: 'https://mirror.example.com:4015/keys' } } }),
    port: 4015,
    setting: 'leaks.github.keysUrl',
  },
  'traces of a gateway': {
    pod: 'gateway',
    on: config({ tracing: { endpoint: 'http://collector:4318' } }),
    port: 4318,
    setting: 'tracing.endpoint',
  },
  'traces of a gateway, over TLS': {
    pod: 'gateway',
    on: config({ tracing: { endpoint: 'https://collector.example.com' } }),
    port: 443,
  },
  'usage export': {
    pod: 'gateway',
    on: config({ usage: { export: { url: 'http://collector:4016/usage' } } }),
    port: 4016,
    setting: 'usage.export.url',
  },
  'an egress proxy, for a gateway': {
    pod: 'gateway',
    on: proxy('HTTPS_PROXY', 'http://proxy.example.com:3128'),
    port: 3128,
  },
  'an egress proxy, for the console': {
    pod: 'console',
    on: proxy('https_proxy', 'http://user@{{ .Release.Name }}.example.com:4017/'),
    port: 4017,
  },
  'an egress proxy for plain http': { pod: 'console', on: proxy('HTTP_PROXY', 'http://proxy'), port: 80 },
  'an egress proxy of the settings': {
    pod: 'console',
    on: config({ outgoing: { httpsProxy: 'http://proxy.example.com:4019' } }),
    port: 4019,
    setting: 'outgoing.httpsProxy',
  },
  'an egress proxy of the settings, for plain http': {
    pod: 'gateway',
    on: config({ outgoing: { httpProxy: 'http://proxy.example.com:4020' } }),
    port: 4020,
    setting: 'outgoing.httpProxy',
  },
  'an egress proxy of the settings, from a Secret': {
    pod: 'gateway',
    on: { secrets: { outgoing: { httpsProxy: OF_SECRET } } },
    port: 3128,
  },
  'an egress proxy, from a Secret': {
    pod: 'gateway',
    on: { pod: { extraEnv: [{ name: 'HTTPS_PROXY', valueFrom: { secretKeyRef: {} } }] } },
    port: 3128,
  },
  'an egress proxy, from a ConfigMap': {
    pod: 'gateway',
    on: { networkPolicy: { egressProxy: { ports: [4018] } } },
    port: 4018,
  },
  'DNS servers of the pods’ own': {
    pod: 'gateway',
    on: { pod: { dnsPolicy: 'None', dnsConfig: { nameservers: [PRIVATE] } } },
    port: 53,
  },
  'what an init container of the backup needs': {
    pod: 'backup',
    on: { networkPolicy: { extraEgress: [{ ports: [{ port: 8200 }] }] } },
    port: 8200,
  },
}
/** An address that the pages and answers show, and to which nothing connects. */
const NOT_CALLED = ['console.publicUrl']

/** `rows` of values over those of a release with both planes and a backup. */
function policies(...rows: readonly Values[]): Rendering {
  const shared = {
    ...MINIMAL,
    console: { enabled: true, backup: { enabled: true } },
    networkPolicy: { enabled: true },
    secrets: { ...MINIMAL.secrets, keyService: { token: OF_SECRET } },
  }
  return render(rows.reduce<Values>(overlay, shared))
}

/** As Helm lays values over others: null removes one. */
function overlay(below: Values, above: Values): Values {
  const names = [...new Set([...Object.keys(below), ...Object.keys(above)])]
  const kept = names.filter(name => above[name] !== null)
  return Object.fromEntries(kept.map(name => [name, laid(below[name], above[name])]))
}

function laid(below: unknown, above: unknown): unknown {
  if (above === undefined) return below
  return isMap(below) && isMap(above) ? overlay(below, above) : above
}

const isMap = (value: unknown): value is Values =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Whether a pod's policy lets it connect to an address outside the cluster, as a network plugin reads it. */
function allows(rendering: Rendering, pod: Pod, address: string, port: number): boolean {
  return listAt(rendering.get('NetworkPolicy', `-${pod}`), 'spec.egress').some(
    rule => portsOf(rule).some(([from, to]) => from <= port && port <= to) && reaches(rule, address),
  )
}

const portsOf = (rule: unknown) =>
  listAt(rule, 'ports')
    .filter(({ protocol }) => protocol !== 'UDP')
    .map(({ port, endPort }) => [Number(port), Number(endPort ?? port)] as const)

function reaches(rule: unknown, address: string): boolean {
  if (valueAt(rule, 'to') === undefined) return true
  return listAt(rule, 'to').some(peer => {
    if (!('ipBlock' in peer)) return false
    const { cidr, except = [] } = at(peer, 'ipBlock') as { cidr: string; except?: readonly string[] }
    return contains([cidr], address) && !contains(except, address)
  })
}

function contains(cidrs: readonly string[], address: string): boolean {
  const list = new BlockList()
  for (const cidr of cidrs) {
    const [network = '', bits] = cidr.split('/')
    list.addSubnet(network, Number(bits), isIP(network) === 6 ? 'ipv6' : 'ipv4')
  }
  return list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
}

describe.skipIf(!has(HELM))('the NetworkPolicy allows what a feature connects to, if it is on', () => {
  it.each(Object.entries(FLOWS))('%s', (_, { pod, on, off = {}, port }) => {
    const rendering = policies(on)
    expect(rendering.stderr).toBe('')
    expect(allows(rendering, pod, PRIVATE, port)).toBe(true)
    expect(allows(policies(off), pod, PRIVATE, port)).toBe(false)
  })

  it('has a row for every setting that holds an address to connect to', () => {
    const addresses = settings.filter(
      ({ path, schema }) =>
        path === 'regions' ||
        /-url$|-node$|^host-and-port$/.test(schema.format ?? schema.items?.format ?? ''),
    )
    const covered = Object.values(FLOWS).flatMap(({ setting = [] }) => setting)
    expect(addresses.map(({ path }) => path).toSorted()).toEqual([...covered, ...NOT_CALLED].toSorted())
  })

  it('lets the console, which makes no spans, reach no collector of traces', () => {
    const rendering = policies(config({ tracing: { endpoint: 'http://collector:4318' } }))
    expect(allows(rendering, 'console', PRIVATE, 4318)).toBe(false)
  })

  it.each(['gateway', 'console', 'backup'] as const)('the %s reaches nothing else', pod => {
    const given = listAt(policies().get('NetworkPolicy', `-${pod}`), 'spec.egress').flatMap(portsOf)
    const usual = { gateway: [53, 6379, 8080, 8082], console: [53, 6379], backup: [53] }[pod]
    expect(given.map(([from]) => from)).toEqual(usual)
  })
})

/** What is called outside, by https, at addresses on ports of its own. */
const CALLED = {
  tracing: { endpoint: 'https://traces.example.com:4101' },
  usage: { export: { url: 'https://usage.example.com:4102' } },
  console: {
    publicUrl: 'https://k',
    oidc: { issuer: 'https://login.example.com:4103', clientId: 'p' },
    webhook: { url: 'https://hooks.corp.example:4104' },
    gatewayUrl: 'https://api.example.com:4105',
  },
  leaks: { enabled: true, github: { keysUrl: 'https://mirror.example.com:4106/keys' } },
  webhooks: { workspaces: { enabled: true, allowedCidrs: ['10.7.0.0/16'] } },
}
const PORTS = [4101, 4102, 4103, 4104, 4105, 4106]
const HTTPS_PROXY = 'http://proxy.example.com:3128'

/** The ports on which a plane reaches any private address, and 443 for the public Internet. */
function direct(outgoing: object, ...rows: readonly Values[]): readonly number[] {
  const secrets = { console: { webhook: { secret: OF_SECRET } } }
  const rendering = policies(config({ ...CALLED, outgoing }), { secrets }, ...rows)
  expect(rendering.stderr).toBe('')
  const open = (address: string, port: number) =>
    (['gateway', 'console'] as const).some(pod => allows(rendering, pod, address, port))
  return [...PORTS.filter(port => open(PRIVATE, port)), ...(open('93.184.216.34', 443) ? [443] : [])]
}

describe.skipIf(!has(HELM))('beside an egress proxy', () => {
  it('what is called through it has no direct way, and without one it has', () => {
    expect(direct({})).toEqual([...PORTS, 443])
    expect(direct({ httpsProxy: HTTPS_PROXY })).toEqual([])
    expect(direct({}, proxy('HTTPS_PROXY', HTTPS_PROXY))).toEqual([])
    expect(direct({}, { secrets: { outgoing: { httpsProxy: OF_SECRET } } })).toEqual([])
    expect(direct({ httpProxy: HTTPS_PROXY })).toEqual([...PORTS, 443])
  })

  it.each<[string, readonly string[], readonly number[]]>([
    ['a name', ['login.example.com'], [4103]],
    ['a domain', ['.corp.example', 'other.example'], [4104]],
    ['a name with a port', ['*.example.com:4105'], [4101, 4102, 4103, 4105, 4106]],
    ['a part of a name', ['ogin.example.com'], []],
    ['networks', ['10.0.0.0/8', 'fd00::/8'], []],
    ['everything', ['*'], [...PORTS, 443]],
  ])('what NO_PROXY names is called directly: %s', (_, noProxy, ports) => {
    expect(direct({ httpsProxy: HTTPS_PROXY, noProxy })).toEqual(ports)
    const named = [
      { name: 'https_proxy', value: HTTPS_PROXY },
      { name: 'NO_PROXY', value: noProxy.join(', ') },
    ]
    expect(direct({}, { pod: { extraEnv: named } })).toEqual(ports)
  })

  it('an address goes directly where NO_PROXY has addresses, and all does where a Secret holds it', () => {
    const oidc = { ...CALLED.console.oidc, issuer: 'https://10.1.2.3:4103' }
    const issuer = config({ console: { ...CALLED.console, oidc } })
    expect(direct({ httpsProxy: HTTPS_PROXY, noProxy: ['10.0.0.0/8'] }, issuer)).toEqual([4103])
    const unknown = { pod: { extraEnv: [{ name: 'NO_PROXY', valueFrom: { secretKeyRef: {} } }] } }
    expect(direct({ httpsProxy: HTTPS_PROXY }, unknown)).toEqual([...PORTS, 443])
  })

  it('named peers and allowed private receivers of webhooks stay reachable', () => {
    const to = [{ ipBlock: { cidr: '10.1.0.0/16' } }]
    expect(direct({ httpsProxy: HTTPS_PROXY }, { networkPolicy: { identityProvider: { to } } })).toEqual([
      4103,
    ])
    const rendering = policies(config({ ...CALLED, outgoing: { httpsProxy: HTTPS_PROXY } }), {
      secrets: { console: { webhook: { secret: OF_SECRET } } },
    })
    expect(allows(rendering, 'console', '10.7.0.1', 443)).toBe(true)
    expect(allows(rendering, 'console', '10.1.2.3', 3128)).toBe(true)
  })
})

const WORKSPACES = { enabled: true }
const webhooks = (more: object = {}) =>
  policies(config({ webhooks: { workspaces: { ...WORKSPACES, ...more } } }))
const EXAMPLES = [
  ...['93.184.216.34', '1.1.1.1', '192.169.0.1', '172.32.0.1', '100.128.0.1'],
  ...[
    '10.0.0.1',
    '172.16.0.1',
    '192.168.1.1',
    '169.254.169.254',
    '100.64.0.1',
    '127.0.0.1',
    '224.0.0.1',
    '0.0.0.0',
  ],
  ...['2606:4700::1111', '2a00:1450::1'],
  ...['::1', 'fd00::1', 'fe80::1', 'ff02::1', '64:ff9b::a00:1', '2002:a00:1::1', '2001:db8::1'],
]

describe.skipIf(!has(HELM))('webhooks of workspaces reach the public Internet alone', () => {
  it.each(EXAMPLES)('%s, as the console itself decides', address => {
    expect(allows(webhooks(), 'console', address, 443)).toBe(isPublicAddress(address))
    expect(allows(policies(), 'console', address, 443)).toBe(false)
    expect(allows(webhooks(), 'gateway', address, 443)).toBe(false)
  })

  it('on 443 and the ports from 1024, and on 80 only with allowHttp', () => {
    const ports = [22, 80, 443, 1023, 1024, 8443, 65_535]
    const allowed = (rendering: Rendering) =>
      ports.filter(port => allows(rendering, 'console', '93.184.216.34', port))
    expect(allowed(webhooks())).toEqual([443, 1024, 8443, 65_535])
    expect(allowed(webhooks({ allowHttp: true }))).toEqual([80, 443, 1024, 8443, 65_535])
  })

  it('and what the settings add and take away', () => {
    const more = {
      allowedCidrs: ['10.7.0.0/16', 'fd00::5'],
      deniedCidrs: ['198.18.5.5', '93.184.216.0/24', '2606:4700::/32', 'fd00::/8', '10.9.0.0/16'],
    }
    const rendering = webhooks(more)
    const allowed = (address: string) => allows(rendering, 'console', address, 443)
    expect(['10.7.1.1', 'fd00::5', '1.1.1.1', '2a00::1'].filter(address => !allowed(address))).toEqual([])
    expect(['10.8.1.1', 'fd00::6', '93.184.216.34', '2606:4700::1111'].filter(allowed)).toEqual([])
  })

  it('nothing at all, if the settings deny every network', () => {
    const rendering = webhooks({ deniedCidrs: ['0.0.0.0/0', '::/0'] })
    expect(EXAMPLES.filter(address => allows(rendering, 'console', address, 443))).toEqual([])
  })

  it('named peers and ports replace these', () => {
    const to = [{ ipBlock: { cidr: '192.0.2.0/24' } }]
    const rendering = policies(config({ webhooks: { workspaces: WORKSPACES } }), {
      networkPolicy: { workspaceWebhooks: { to, ports: [3128] } },
    })
    expect(allows(rendering, 'console', '192.0.2.9', 3128)).toBe(true)
    expect(allows(rendering, 'console', '93.184.216.34', 443)).toBe(false)
  })
})

describe.skipIf(!has(HELM))('public keys for reports of leaked keys', () => {
  const leaks = (more: object) => policies(config({ leaks: { enabled: true, ...more } }))

  it('are read from the public Internet by default', () => {
    expect(allows(leaks({}), 'console', '140.82.121.6', 443)).toBe(true)
    expect(allows(leaks({}), 'console', PRIVATE, 443)).toBe(false)
    expect(allows(leaks({}), 'gateway', '140.82.121.6', 443)).toBe(false)
  })

  it('are read from nowhere if a file holds them', () => {
    const file = { github: { keysFile: '/keys/github.json' } }
    expect(allows(leaks(file), 'console', '140.82.121.6', 443)).toBe(false)
  })
})
