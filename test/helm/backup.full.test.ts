import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { MINIMAL, NAME, render, type Values, WITH_CONSOLE } from '../support/chart.ts'
import { at, listAt, textAt, valueAt } from '../support/manifests.ts'
import { HELM, has } from '../support/tools.ts'

const ON = { backup: { enabled: true } }
const SQLITE = { ...WITH_CONSOLE, console: { enabled: true, ...ON } }
const POSTGRES = {
  ...SQLITE,
  secrets: { ...MINIMAL.secrets, database: { url: { existingSecret: 'postern-database' } } },
  networkPolicy: { enabled: true },
}
const COMPONENT = 'app.kubernetes.io/component'

const template = (values: Values) => at(render(values).get('CronJob'), 'spec.jobTemplate.spec.template')
const claimsOf = (values: Values) =>
  listAt(template(values), 'spec.volumes').flatMap(volume =>
    'persistentVolumeClaim' in volume ? [textAt(volume, 'persistentVolumeClaim.claimName')] : [],
  )

describe.skipIf(!has(HELM))('the backup of a console', () => {
  it('is what the values of its page enable', () => {
    const page = readFileSync(new URL('../../docs/operate/backup-kubernetes.md', import.meta.url), 'utf8')
    const [, values = ''] = /```yaml\n([\s\S]*?)```/.exec(page) ?? []
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
})
