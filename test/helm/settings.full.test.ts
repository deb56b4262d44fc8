import { describe, expect, it } from 'vitest'
import {
  MINIMAL,
  mountedSecrets,
  NAME,
  podOf,
  render,
  settingsOf,
  settingsText,
  type Values,
  WITH_CONSOLE,
} from '../support/chart.ts'
import { at, textAt, valueAt } from '../support/manifests.ts'
import { SEMI_SPACE_MIB } from '../support/start-arguments.ts'
import { HELM, has } from '../support/tools.ts'

function checksums(values: Values): { config: string; secret: unknown } {
  const annotations = at(podOf(render(values), 'gateway').metadata, 'annotations')
  return { config: settingsText(render(values), 'gateway'), secret: annotations['checksum/secret'] }
}

const withConfig = (config: object) => ({
  ...MINIMAL,
  config: { ...MINIMAL.config, ...config },
})

describe.skipIf(!has(HELM))('the settings file', () => {
  it('is passed to the process, and contains only configured settings', () => {
    const rendering = render(MINIMAL)
    expect(settingsOf(rendering, 'gateway')).toEqual({
      upstream: { url: 'http://workspaces:8080' },
      redis: { urlFile: '/etc/postern/secrets/redis.url' },
      keys: { signingSecretsFile: '/etc/postern/secrets/keys.signingSecrets' },
    })
    expect(valueAt(podOf(rendering, 'gateway').spec, 'containers', '0', 'env', '0')).toEqual({
      name: 'POSTERN_CONFIG',
      value: '/etc/postern/config/postern.yaml',
    })
  })

  it('keeps numbers, booleans and strings', () => {
    const gateway = { maxInFlight: 1_000_000, trustedProxies: ['10.0.0.0/8', '2001:db8::/32'] }
    const settings = settingsOf(
      render(withConfig({ gateway, keys: { prefix: 'yes_', staleSeconds: 0.5 } })),
      'gateway',
    )
    expect(settings['gateway']).toEqual(gateway)
    expect(settings['keys']).toMatchObject({ prefix: 'yes_', staleSeconds: 0.5 })
  })

  it('prefers settings of a plane to common ones', () => {
    const values = {
      ...withConfig({ redis: { url: 'redis://redis', heartbeats: true }, log: { level: 'warn' } }),
      secrets: {},
      gateway: { config: { redis: { heartbeats: false }, log: { level: 'debug' } } },
      console: { enabled: true },
    }
    const rendering = render(values)
    expect(settingsOf(rendering, 'gateway')).toMatchObject({
      redis: { url: 'redis://redis', heartbeats: false },
      log: { level: 'debug' },
    })
    expect(settingsOf(rendering, 'console')).toMatchObject({
      redis: { url: 'redis://redis', heartbeats: true },
      log: { level: 'warn' },
    })
  })

  it('contains the console’s address for the gateway, unless another is configured', () => {
    const console = { enabled: true, internalService: { port: 8443 } }
    expect(settingsOf(render({ ...MINIMAL, console }), 'gateway')['keyService']).toEqual({
      url: `http://${NAME}-console-internal:8443`,
      tokenFile: '/etc/postern/secrets/keyService.token',
    })
    const elsewhere = render({ ...withConfig({ keyService: { url: 'https://keys.example' } }), console })
    expect(settingsOf(elsewhere, 'gateway')['keyService']).toMatchObject({ url: 'https://keys.example' })
    expect(settingsOf(elsewhere, 'console')['keyService']).toEqual({
      tokenFile: '/etc/postern/secrets/keyService.token',
    })
  })

  it('contains an https address if the console’s internal listener has a certificate', () => {
    const rendering = render({}, { files: ['everything-on-values.yaml'] })
    const directory = '/etc/postern/secrets'
    expect(settingsOf(rendering, 'gateway')['keyService']).toEqual({
      url: `https://${NAME}-console-internal:8082`,
      tokenFile: `${directory}/keyService.token`,
      tls: {
        caFile: `${directory}/keyService.tls.caFile`,
        certFile: `${directory}/keyService.tls.certFile`,
        keyFile: `${directory}/keyService.tls.keyFile`,
      },
    })
    expect(settingsOf(rendering, 'console')['console']).toMatchObject({
      internal: { tls: { clientCaFile: `${directory}/console.internal.tls.clientCaFile` } },
    })
    expect(settingsOf(rendering, 'gateway')).not.toHaveProperty('console')
    const mounted = Object.keys(mountedSecrets(rendering, 'console'))
    expect(mounted.filter(file => file.startsWith('keyService.'))).toEqual(['keyService.token'])
  })

  it('names the mounted file of every reference: secrets, certificates, headers', () => {
    const rendering = render({}, { files: ['upstream-own-ca-values.yaml'] })
    const directory = '/etc/postern/secrets'
    expect(settingsOf(rendering, 'gateway')['upstream']).toEqual({
      url: 'https://workspaces.internal.example:8443/base',
      headersTimeoutMs: 20_000,
      headers: { 'X-Service-Token': { file: `${directory}/upstream.headers.X-Service-Token` } },
      tls: {
        caFile: `${directory}/upstream.tls.caFile`,
        certFile: `${directory}/upstream.tls.certFile`,
        keyFile: `${directory}/upstream.tls.keyFile`,
      },
    })
    expect(mountedSecrets(rendering, 'gateway')).toMatchObject({
      'upstream.headers.X-Service-Token': 'workspaces-token/token',
      'upstream.tls.caFile': 'internal-ca/ca.crt',
      'upstream.tls.keyFile': 'postern-client-tls/tls.key',
      'redis.url': 'postern-redis/redis-url',
    })
  })

  it('can name a file that is mounted by other means', () => {
    const values = withConfig({ redis: { urlFile: '/vault/redis' } })
    expect(
      settingsOf(render({ ...values, secrets: { keys: MINIMAL.secrets.keys } }), 'gateway')['redis'],
    ).toEqual({
      urlFile: '/vault/redis',
    })
  })
})

describe.skipIf(!has(HELM))('pods are replaced', () => {
  it('when their settings change, and only then', () => {
    const before = checksums(MINIMAL).config
    expect(checksums(withConfig({ drain: { delayMs: 6000 } })).config).not.toBe(before)
    expect(checksums({ ...MINIMAL, gateway: { replicas: 3 } }).config).toBe(before)
    expect(checksums({ ...MINIMAL, console: { config: { log: { level: 'warn' } } } }).config).toBe(before)
  })

  it('by pods that carry their settings, so that each revision of a workload keeps its own for a rollback', () => {
    const rendering = render({ ...WITH_CONSOLE, tests: { enabled: false } })
    for (const plane of ['gateway', 'console'] as const) {
      expect(settingsText(rendering, plane)).toContain('Rendered from the chart')
    }
    // Nothing that a later revision, an age limit or a pruning tool could delete.
    expect(rendering.all('ConfigMap')).toEqual([])
  })

  it('but not beyond what Kubernetes stores with a pod', () => {
    const path = `/api/v1/${'x'.repeat(1_100)}`
    const many = Object.fromEntries(
      Array.from({ length: 200 }, (_, index) => [`r${index}`, { path: `${path}${index}` }]),
    )
    const { ok, stderr } = render(withConfig({ routes: many }))
    expect([ok, stderr]).toEqual([false, expect.stringMatching(/the gateway's settings have \d+ bytes/)])
  })

  it('when a generated secret changes; the chart does not know the others', () => {
    expect(checksums(WITH_CONSOLE).secret).toMatch(/^[0-9a-f]{64}$/)
    expect(checksums(MINIMAL).secret).toBeUndefined()
  })
})

describe.skipIf(!has(HELM))('secrets without a reference', () => {
  const kept = { 'helm.sh/resource-policy': 'keep' }

  it('are generated once, with the console: a signing secret of 32 random bytes and the two tokens', () => {
    const both = render(WITH_CONSOLE).get('Secret')
    expect(Object.keys(at(both, 'data')).sort()).toEqual([
      'console-admin-token',
      'key-service-token',
      'keys-signing-secrets',
    ])
    const plain = (key: string) => Buffer.from(textAt(both, 'data', key), 'base64').toString()
    expect(Buffer.from(plain('keys-signing-secrets'), 'base64')).toHaveLength(32)
    expect(plain('key-service-token')).toMatch(/^[A-Za-z0-9]{48}$/)
    expect(plain('key-service-token')).not.toBe(plain('console-admin-token'))
  })

  it('are kept on upgrade and uninstall', () => {
    expect(at(render(WITH_CONSOLE).get('Secret'), 'metadata')['annotations']).toMatchObject(kept)
  })

  it('are the same for both planes', () => {
    const rendering = render(WITH_CONSOLE)
    for (const file of ['keyService.token', 'keys.signingSecrets']) {
      expect(mountedSecrets(rendering, 'gateway')[file]).toBe(mountedSecrets(rendering, 'console')[file])
    }
  })

  it('are not generated where Helm cannot see those of the last rendering, unless the values allow it', () => {
    const { ok, stderr } = render(WITH_CONSOLE, { refusesToGenerate: true })
    expect(ok).toBe(false)
    expect(stderr.replace(/\s+/g, ' ')).toContain('would replace it and reject every key: set secrets.keys')
    expect(render({}, { files: ['console-postgres-values.yaml'], refusesToGenerate: true }).ok).toBe(true)
  })

  it('are not generated if all are referenced, nor is a signing secret for opaque keys', () => {
    expect(render({}, { files: ['console-postgres-values.yaml'] }).all('Secret')).toEqual([])
    expect(render({}, { files: ['bring-your-own-keys-values.yaml'] }).all('Secret')).toEqual([])
  })
})

describe.skipIf(!has(HELM))(
  'names of Secrets, environment, volumes and further objects are templates',
  () => {
    it('that are rendered', () => {
      const rendering = render({}, { files: ['everything-on-values.yaml'] })
      const { spec } = podOf(rendering, 'gateway')
      expect(mountedSecrets(rendering, 'gateway')['redis.url']).toBe('acme-redis/redis-url')
      expect(valueAt(spec, 'containers', '0', 'env')).toContainEqual({ name: 'RELEASE', value: 'acme' })
      expect(valueAt(spec, 'volumes')).toContainEqual({ name: 'notes', configMap: { name: 'acme-notes' } })
      expect(at(rendering.get('ConfigMap', 'acme-notes'), 'data')).toEqual({ version: '0.1.0' })
      expect(rendering.get('ConfigMap', 'acme-further')).toBeDefined()
    })
  },
)

/** Resident memory of a gateway under full load, minus its heap. */
const OUTSIDE_OF_THE_HEAP_MIB = 80

describe.skipIf(!has(HELM))('the heap', () => {
  const optionsOf = (values: Values) =>
    (
      valueAt(podOf(render(values), 'gateway').spec, 'containers', '0', 'env') as {
        name: string
        value: string
      }[]
    )
      .filter(({ name }) => name === 'NODE_OPTIONS')
      .map(({ value }) => value)

  it('limit is a share of the memory limit', () => {
    expect(optionsOf(MINIMAL)).toEqual(['--max-old-space-size-percentage=50'])
    expect(optionsOf({ ...MINIMAL, pod: { heapPercent: 60 } })).toEqual([
      '--max-old-space-size-percentage=60',
    ])
  })

  it('limit leaves room for the young generation and for memory outside the heap', () => {
    const { limits } = valueAt(podOf(render(MINIMAL), 'gateway').spec, 'containers', '0', 'resources') as {
      limits: { memory: string }
    }
    const limitMib = Number(/^(\d+)Mi$/.exec(limits.memory)?.[1])
    const [percent] = optionsOf(MINIMAL).map(option => Number(option.split('=')[1]))
    const livesLongMib = (limitMib * Number(percent)) / 100
    expect(livesLongMib + 3 * SEMI_SPACE_MIB + OUTSIDE_OF_THE_HEAP_MIB).toBeLessThanOrEqual(limitMib)
  })

  it('limit is Node’s default without a memory limit, with null, and with NODE_OPTIONS', () => {
    expect(optionsOf({ ...MINIMAL, gateway: { resources: { limits: null } } })).toEqual([])
    expect(optionsOf({ ...MINIMAL, pod: { heapPercent: null } })).toEqual([])
    const extraEnv = [{ name: 'NODE_OPTIONS', value: '--enable-source-maps' }]
    expect(optionsOf({ ...MINIMAL, pod: { extraEnv } })).toEqual(['--enable-source-maps'])
  })
})
