import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { MINIMAL, NAME, render, type Values, WITH_CONSOLE } from '../support/chart.ts'
import { at, listAt, type Manifest, textAt, valueAt } from '../support/manifests.ts'
import { HELM, has } from '../support/tools.ts'

const ON = { backup: { enabled: true } }
const SQLITE = { ...WITH_CONSOLE, console: { enabled: true, ...ON } }
const POSTGRES = {
  ...SQLITE,
  secrets: { ...MINIMAL.secrets, database: { url: { existingSecret: 'postern-database' } } },
  networkPolicy: { enabled: true },
}
const backup = (more: object): Values => ({
  ...SQLITE,
  console: { enabled: true, backup: { enabled: true, ...more } },
})
const COMPONENT = 'app.kubernetes.io/component'

const template = (values: Values) => at(render(values).get('CronJob'), 'spec.jobTemplate.spec.template')
const claimsOf = (values: Values) =>
  listAt(template(values), 'spec.volumes').flatMap(volume =>
    'persistentVolumeClaim' in volume ? [textAt(volume, 'persistentVolumeClaim.claimName')] : [],
  )

describe.skipIf(!has(HELM))('the backup of a console', () => {
  it('is what the values of its page enable', () => {
    const page = readFileSync(new URL('../../docs/operate/backup.md', import.meta.url), 'utf8')
    const [, values = ''] = /```yaml\n(# values of the chart\n[\s\S]*?)```/.exec(page) ?? []
    const { console: given } = parse(values) as typeof SQLITE
    expect(render({ ...SQLITE, console: { ...given, enabled: true } }).all('CronJob')).toHaveLength(1)
  })

  it('is off unless enabled', () => {
    expect(render(WITH_CONSOLE).all('CronJob')).toEqual([])
  })

  it('runs the command of the image on a volume that Helm keeps', () => {
    const container = at(template(SQLITE), 'spec.containers', '0')
    expect(valueAt(container, 'args')).toEqual(['database', 'backup', '/backup', '--keep', '7'])
    const claim = render(SQLITE).get('PersistentVolumeClaim', '-backup')
    expect(valueAt(claim, 'metadata.annotations', 'helm.sh/resource-policy')).toBe('keep')
    expect(claimsOf(SQLITE)).toEqual([`${NAME}-console-data`, `${NAME}-backup`])
  })

  it('has the settings and secrets of a backup and of a restore, and none of the rest of the console', () => {
    const secret = { existingSecret: 'postern-more' }
    const more = {
      keyService: { token: secret },
      outgoing: { httpsProxy: secret },
      console: {
        adminToken: secret,
        oidc: { clientSecret: secret },
        internal: { tls: { certFile: secret, keyFile: secret } },
      },
    }
    const oidc = { issuer: 'https://login.example.com', clientId: 'postern' }
    const config = { ...MINIMAL.config, console: { publicUrl: 'https://keys.example.com', oidc } }
    const filled = { ...POSTGRES, config, secrets: { ...POSTGRES.secrets, ...more } }
    const secretsOf = (pod: Manifest) =>
      listAt(
        listAt(pod, 'spec.volumes').find(({ name }) => name === 'secrets'),
        'projected.sources',
      ).flatMap(source => listAt(source, 'secret.items').map(({ path }) => path))
    expect(secretsOf(at(render(filled).get('Deployment', '-console'), 'spec.template'))).toHaveLength(9)
    const needed = ['database.url', 'keys.signingSecrets', 'redis.url']
    expect(secretsOf(template(filled)).toSorted()).toEqual(needed)
    const settings = textAt(template(filled), 'metadata.annotations', 'postern/settings')
    expect(Object.keys(parse(settings) as object).toSorted()).toEqual(['database', 'keys', 'redis'])
    const generated = { ...WITH_CONSOLE, console: { enabled: true, ...ON } }
    expect(secretsOf(template(generated)).toSorted()).toEqual(['keys.signingSecrets', 'redis.url'])
  })

  it('is no pod of the console: its Service sends it no request, and no probe waits for it', () => {
    expect(valueAt(template(SQLITE), 'metadata.labels', COMPONENT)).toBe('backup')
    const container = at(template(SQLITE), 'spec.containers', '0')
    for (const field of ['ports', 'livenessProbe', 'readinessProbe', 'startupProbe', 'lifecycle']) {
      expect(valueAt(container, field), field).toBeUndefined()
    }
  })

  it('has the security context of the console', () => {
    const pod = at(render(SQLITE).get('StatefulSet'), 'spec.template.spec')
    const spec = at(template(SQLITE), 'spec')
    expect(valueAt(spec, 'securityContext')).toEqual(valueAt(pod, 'securityContext'))
    expect(valueAt(at(spec, 'containers', '0'), 'securityContext')).toEqual(
      valueAt(at(pod, 'containers', '0'), 'securityContext'),
    )
  })

  it('runs on the node of the console, whose volume it reads', () => {
    const [term] = listAt(
      template(SQLITE),
      'spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution',
    )
    expect(term).toMatchObject({
      topologyKey: 'kubernetes.io/hostname',
      labelSelector: { matchLabels: { [COMPONENT]: 'console' } },
    })
  })

  it('with PostgreSQL runs on any node, and reaches the database and DNS alone', () => {
    expect(valueAt(template(POSTGRES), 'spec.affinity')).toBeUndefined()
    expect(claimsOf(POSTGRES)).toEqual([`${NAME}-backup`])
    const policy = render(POSTGRES).get('NetworkPolicy', '-backup')
    const ports = listAt(policy, 'spec.egress').map(rule => listAt(rule, 'ports').map(({ port }) => port))
    expect([valueAt(policy, 'spec.ingress'), ports]).toEqual([[], [[53, 53], [5432]]])
  })

  it('refuses a volume that only one pod may use', () => {
    const { ok, stderr } = render({
      ...SQLITE,
      console: { ...SQLITE.console, persistence: { accessModes: ['ReadWriteOncePod'] } },
    })
    expect([ok, stderr]).toEqual([false, expect.stringContaining('set ReadWriteOnce')])
  })

  it('has no injected sidecar that would keep its Job from ending, also where the console has one', () => {
    const pod = {
      labels: { 'sidecar.istio.io/inject': 'true', tier: 'internal' },
      annotations: { 'linkerd.io/inject': 'enabled', 'vault.hashicorp.com/agent-inject': 'true' },
    }
    const { labels, annotations } = at(
      template({ ...SQLITE, console: { ...SQLITE.console, pod } }),
      'metadata',
    )
    expect(labels).toMatchObject({ 'sidecar.istio.io/inject': 'false', tier: 'internal' })
    expect(annotations).toMatchObject({
      'sidecar.istio.io/inject': 'false',
      'linkerd.io/inject': 'disabled',
      // The agent fills its files in an init container, and no other runs beside the backup.
      'vault.hashicorp.com/agent-inject': 'true',
      'vault.hashicorp.com/agent-pre-populate-only': 'true',
    })
    const own = { labels: { 'sidecar.istio.io/inject': 'true' } }
    expect(valueAt(template(backup({ pod: own })), 'metadata.labels', 'sidecar.istio.io/inject')).toBe('true')
  })

  it('nor has the pod of the release’s test', () => {
    expect(at(render(SQLITE).get('Pod', '-test'), 'metadata')).toMatchObject({
      labels: { 'sidecar.istio.io/inject': 'false' },
      annotations: { 'linkerd.io/inject': 'disabled', 'helm.sh/hook': 'test' },
    })
  })

  it('runs the console’s proxy to the database as a native sidecar, which ends with the backup', () => {
    const readinessProbe = { httpGet: { path: '/readiness', port: 9801 }, successThreshold: 1 }
    const proxy = {
      name: 'cloud-sql-proxy',
      image: 'registry.example.com/{{ .Release.Name }}',
      readinessProbe,
    }
    const pod = { initContainers: [{ name: 'first', image: 'x' }], extraContainers: [proxy] }
    const spec = at(template({ ...SQLITE, console: { ...SQLITE.console, pod } }), 'spec')
    expect(listAt(spec, 'containers').map(({ name }) => name)).toEqual(['backup'])
    expect(valueAt(spec, 'initContainers')).toEqual([
      { name: 'first', image: 'x' },
      {
        ...proxy,
        image: 'registry.example.com/acme',
        restartPolicy: 'Always',
        // The backup begins once the proxy answers.
        startupProbe: { httpGet: { path: '/readiness', port: 9801 } },
      },
    ])
  })

  it('may have sidecars of its own, or none', () => {
    const pod = { extraContainers: [{ name: 'logs', image: 'x' }] }
    const sidecarsWith = (extraContainers: unknown) => {
      const values = {
        ...SQLITE,
        console: { enabled: true, pod, backup: { enabled: true, extraContainers } },
      }
      return (valueAt(template(values), 'spec.initContainers') ?? []) as { name: string }[]
    }
    expect(sidecarsWith([{ name: 'proxy', image: 'z' }])).toEqual([
      { name: 'proxy', image: 'z', restartPolicy: 'Always' },
    ])
    expect(sidecarsWith([])).toEqual([])
  })

  it('has the configured time zone, labels and annotations, and is suspended if so configured', () => {
    const spec = (values: Values) => at(render(values).get('CronJob'), 'spec')
    expect(spec(SQLITE)).not.toHaveProperty('timeZone')
    // Not false: an upgrade would end a suspension by kubectl.
    expect(spec(SQLITE)).not.toHaveProperty('suspend')
    const values = backup({
      timeZone: 'Europe/Berlin',
      suspend: true,
      labels: { team: 'platform' },
      annotations: { owner: 'platform' },
      persistence: { labels: { volume: 'backup' }, annotations: { keep: 'long' } },
    })
    expect(spec(values)).toMatchObject({ timeZone: 'Europe/Berlin', suspend: true })
    expect(at(render(values).get('CronJob'), 'metadata')).toMatchObject({
      labels: { team: 'platform' },
      annotations: { owner: 'platform' },
    })
    expect(at(render(values).get('PersistentVolumeClaim', '-backup'), 'metadata')).toMatchObject({
      labels: { volume: 'backup' },
      annotations: { keep: 'long', 'helm.sh/resource-policy': 'keep' },
    })
  })
})
