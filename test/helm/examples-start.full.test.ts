import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import type { Plane } from '../../src/config/rules.ts'
import { buildChartTools } from '../kubernetes/control-plane-programs.ts'
import { type ClusterObjects, KubeletDouble, type Surroundings } from '../kubernetes/kubelet-double.ts'
import { type Certificates, makeCertificates } from '../support/certificates.ts'
import { CI_FILES, podOf, podsOf, type Rendering, readCi, render } from '../support/chart.ts'
import { freePort } from '../support/free-port.ts'
import { at, type Manifest, textAt, valueAt } from '../support/manifests.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { RedisServer } from '../support/redis-server.ts'
import { GO, HELM, has, POSTGRES, REDIS } from '../support/tools.ts'
import { until } from '../support/until.ts'
import { filesOfAgent, injectAgent } from '../support/vault-agent.ts'

const PASSWORD = 'a-password-of-more-than-16-characters'
const TOKEN = randomBytes(24).toString('base64url')
const SIGNING_SECRET = randomBytes(32).toString('base64')
const READY_MS = 60_000

type Contents = Readonly<Record<string, string>>

let certificates: Certificates
let postgres: PostgresServer
/** Without TLS, and with a user for each plane. */
let redis: RedisServer
let tlsPort: number
let agent: string

/** Examples whose Redis this test does not have: their pods become ready, and say that they lack it. */
const WITHOUT_REDIS: Readonly<Record<string, string>> = {
  'redis-cluster-tls-values.yaml': 'a cluster with TLS',
  'redis-sentinel-values.yaml': 'Sentinels',
  'region-gateways-values.yaml': 'Sentinels with TLS',
  'regions-console-values.yaml': 'a Redis in each of three regions',
}

/** Contents of the Secrets and ConfigMaps that the examples name, as those write them who make them. */
async function madeObjects(): Promise<Readonly<Record<string, Contents>>> {
  const url = redis.url
  const database = await postgres.database()
  const tls = certificates.server
  // cert-manager: always these three entries.
  const certificate = {
    'tls.crt': tls.cert.toString(),
    'tls.key': tls.key.toString(),
    'ca.crt': readFileSync(certificates.caFile, 'utf8'),
  }
  const users = { gateway: PASSWORD, console: PASSWORD }
  return {
    // kubectl create secret generic --from-literal, as docs/operate/install.md does.
    'postern-redis': { 'redis-url': url, password: PASSWORD, 'sentinel-password': PASSWORD },
    'postern-keys': { 'keys-signing-secrets': SIGNING_SECRET, 'key-service-token': TOKEN },
    'postern-admin': { token: TOKEN, 'console-admin-token': TOKEN },
    'postern-redis-users': users,
    'redis-gateway': { password: PASSWORD },
    'redis-console': { password: PASSWORD },
    'redis-eu': { 'console-password': PASSWORD, 'gateway-password': PASSWORD },
    'redis-us': {
      'console-password': PASSWORD,
      'gateway-password': PASSWORD,
      'sentinel-password': PASSWORD,
    },
    'redis-ap': { 'redis-url': url },
    'acme-redis': { 'redis-url': `rediss://localhost:${tlsPort}` },
    'acme-oidc': { 'console-oidc-client-secret': PASSWORD },
    // With the line end of --from-file.
    'key-service': { token: `${TOKEN}\n` },
    'workspaces-token': { token: `${TOKEN}\n` },
    'postern-shared': { 'keys-signing-secrets': SIGNING_SECRET, 'key-service-token': TOKEN },
    // CloudNativePG writes `uri` beside host, user and password.
    'postern-database': { 'database-url': database, uri: database },
    // trust-manager.
    'internal-ca': { 'ca.crt': certificate['ca.crt'] },
    'postern-client-tls': certificate,
    'gateway-client-tls': certificate,
    'console-internal-tls': certificate,
  }
}

/** Properties of the secret in the store that External Secrets and Vault's agent read. */
async function storedSecret(): Promise<Contents> {
  return {
    'redis-url': redis.url,
    'database-url': await postgres.database(),
    'signing-secrets': SIGNING_SECRET,
    'key-service-token': TOKEN,
    'admin-token': TOKEN,
  }
}

/** A cluster that has what is rendered, and the Secrets and ConfigMaps that others make. */
class RenderedObjects implements ClusterObjects {
  readonly #rendering: Rendering
  readonly #made: Readonly<Record<string, Contents>>

  constructor(rendering: Rendering, made: Readonly<Record<string, Contents>>) {
    this.#rendering = rendering
    this.#made = made
  }

  get(kind: string, name: string): Promise<Manifest> {
    const made = this.#made[name]
    if (made !== undefined) {
      const encode = (text: string) => (kind === 'secret' ? Buffer.from(text).toString('base64') : text)
      const data = Object.entries(made).map(([key, text]) => [key, encode(text)])
      return Promise.resolve({ data: Object.fromEntries(data) as Manifest })
    }
    const object = this.#rendering.objects.find(
      candidate =>
        textAt(candidate, 'kind').toLowerCase() === kind && valueAt(candidate, 'metadata.name') === name,
    )
    return object === undefined
      ? Promise.reject(new Error(`No ${kind} ${name}, and no operator makes it`))
      : Promise.resolve(object)
  }

  list(kind: string): Promise<readonly Manifest[]> {
    return Promise.resolve(kind === 'pods' ? podsOf(this.#rendering) : this.#rendering.all('Service'))
  }
}

/** The example with ports of its own, because all pods share the loopback. */
async function renderExample(file: string): Promise<Rendering> {
  const ports = await Promise.all(Array.from({ length: 5 }, freePort))
  const [api, ops, pages, internal, consoleOps] = ports
  const values: unknown = parse(readCi(file))
  const hasGateway = valueAt(values, 'gateway.enabled') !== false
  const hasConsole = valueAt(values, 'console.enabled') === true
  return render(
    {
      ...(hasGateway ? { gateway: { config: { gateway: { port: api }, ops: { port: ops } } } } : {}),
      ...(hasConsole
        ? {
            console: {
              config: { console: { port: pages, internal: { port: internal } }, ops: { port: consoleOps } },
            },
          }
        : {}),
    },
    { files: [file] },
  )
}

/** Makes what an External Secrets operator writes for the example's ExternalSecrets: each property under its own name, as it is. */
async function fromStore(rendering: Rendering): Promise<Record<string, Contents>> {
  const secret = await storedSecret()
  const made = rendering.all('ExternalSecret').map(object => {
    expect(valueAt(object, 'spec.dataFrom', '0', 'extract', 'key')).toBe('edge/postern')
    return [textAt(object, 'spec.target.name'), secret] as const
  })
  return Object.fromEntries(made)
}

/** The pod as the API server has it, and what the agent of Vault writes if the pod asks for one. */
async function admitted(pod: Manifest): Promise<{ pod: Manifest } & Required<Pick<Surroundings, 'written'>>> {
  if (valueAt(pod, 'metadata.annotations', 'vault.hashicorp.com/agent-inject') === undefined) {
    return { pod, written: {} }
  }
  const injected = injectAgent(pod)
  return { pod: injected.pod, written: await filesOfAgent(agent, injected.templates, await storedSecret()) }
}

/** Waits until a pod is ready, and its /readyz says this. @throws with what it said last */
async function readiness(url: string, wanted: Readonly<Record<string, string>>): Promise<void> {
  let last: Manifest = {}
  const isReady = async () => {
    const answer = await fetch(url)
    last = (await answer.json()) as Manifest
    return answer.status === 200 && Object.entries(wanted).every(([name, value]) => last[name] === value)
  }
  await until('the pod is ready', isReady, READY_MS).catch((error: unknown) => {
    throw new Error(`${String(error)}: ${JSON.stringify(last)}`)
  })
}

/** Starts the pods of an example, and waits until each says that it is ready. */
async function startExample(file: string): Promise<void> {
  const rendering = await renderExample(file)
  const made = { ...(await madeObjects()), ...(await fromStore(rendering)) }
  const kubelet = new KubeletDouble(new RenderedObjects(rendering, made), 'default')
  const addresses = [
    ['redis://redis.default.svc:6379', redis.url],
    ['rediss://redis.eu.internal:6380', `rediss://localhost:${tlsPort}`],
  ] as const
  const hasConsole = podsOf(rendering).some(({ owner }) => owner.endsWith('-console'))
  try {
    // The gateway looks keys up at the console, so that comes first.
    for (const plane of ['console', 'gateway'] as const satisfies Plane[]) {
      if (!podsOf(rendering).some(({ owner }) => owner.endsWith(`-${plane}`))) continue
      const { pod, written } = await admitted(at({ pod: podOf(rendering, plane) }, 'pod'))
      const running = await kubelet.run(pod, { addresses, written })
      const isWhole = hasConsole && !(file in WITHOUT_REDIS)
      // Both planes have the same secrets, each from its own files.
      const whole = {
        gateway: { redis: 'ok', changes: 'connected', signingSecrets: 'match' },
        console: { database: 'ok', announcer: 'ready' },
      }
      await readiness(`${running.urlOf('ops')}/readyz`, isWhole ? whole[plane] : {})
    }
  } finally {
    await kubelet.stop()
  }
}

const tools = [GO, HELM, POSTGRES, REDIS]
describe.skipIf(!tools.every(has))('each example of values, started as a kubelet would', () => {
  beforeAll(async () => {
    agent = join(buildChartTools(), 'consul-template')
    certificates = await makeCertificates()
    tlsPort = await freePort()
    const file = (name: string) => join(certificates.caFile, '..', name)
    const files = [
      ['--tls-cert-file', file('server.pem')],
      ['--tls-key-file', file('server.key')],
      ['--tls-ca-cert-file', certificates.caFile],
    ]
    const settings = ['--tls-port', String(tlsPort), ...files.flat(), '--tls-auth-clients', 'no']
    redis = await RedisServer.start({ settings })
    for (const user of ['gateway', 'console', 'postern']) {
      await redis.addUser(user, 'reset', 'on', `>${PASSWORD}`, '~*', '&*', '+@all')
    }
    postgres = await PostgresServer.started()
  }, 15 * 60_000)
  afterAll(async () => {
    await Promise.all([redis?.stop(), postgres?.stop()])
    certificates?.remove()
  })

  it.each(CI_FILES)('%s', file => startExample(file))

  it('Vault’s example does not start without its templates: each file then has every property of the secret', async () => {
    const rendering = await renderExample('vault-values.yaml')
    const { metadata, spec } = podOf(rendering, 'gateway')
    const annotations = Object.entries(at(metadata, 'annotations')).filter(
      ([name]) => !name.includes('agent-inject-template'),
    )
    const kubelet = new KubeletDouble(new RenderedObjects(rendering, {}), 'default')
    const plain = { metadata: { ...metadata, annotations: Object.fromEntries(annotations) }, spec }
    try {
      const { pod, written } = await admitted(plain)
      const { code, stdout, stderr } = await (await kubelet.start(pod, { written })).exited
      expect(code).toBe(78)
      for (const setting of ['redis.url', 'keys.signingSecrets', 'keyService.token']) {
        expect(stdout + stderr).toContain(setting)
      }
    } finally {
      await kubelet.stop()
    }
  })

  it('Vault’s injector refuses the example’s pods without the token for the agent', async () => {
    const { metadata, spec } = podOf(await renderExample('vault-values.yaml'), 'gateway')
    const name = 'vault.hashicorp.com/agent-service-account-token-volume-name'
    const { [name]: volume, ...annotations } = at(metadata, 'annotations')
    expect(volume).toBe('vault-token')
    expect(() => injectAgent({ metadata: { ...metadata, annotations }, spec })).toThrow(
      'failed to find service account volume mount',
    )
  })
})
