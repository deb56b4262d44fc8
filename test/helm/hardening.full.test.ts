import { describe, expect, it } from 'vitest'
import { CI_FILES, MINIMAL, mountedSecrets, podOf, podsOf, render, WITH_CONSOLE } from '../support/chart.ts'
import { at, listAt, textAt, valueAt } from '../support/manifests.ts'
import { HELM, has } from '../support/tools.ts'

const PODS = has(HELM)
  ? CI_FILES.flatMap(file => podsOf(render({}, { files: [file] })).map(pod => ({ ...pod, file })))
  : []
const named = PODS.map(pod => [`${pod.owner} (${pod.file})`, pod] as const)
const NO_ROOM_FOR = ['hostNetwork', 'hostPID', 'hostIPC', 'hostUsers', 'shareProcessNamespace']
/** Volume types that the restricted Pod Security level allows. */
const VOLUMES = [
  'configMap',
  'csi',
  'downwardAPI',
  'emptyDir',
  'ephemeral',
  'persistentVolumeClaim',
  'projected',
  'secret',
]

describe.skipIf(!has(HELM))('a pod passes the restricted Pod Security level', () => {
  it.each(named)('%s', (_, { spec }) => {
    const pod = at(spec, 'securityContext')
    expect(pod).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } })
    expect(pod['runAsUser']).toBe(65532)
    expect(NO_ROOM_FOR.filter(name => spec[name] === true)).toEqual([])
    for (const volume of listAt(spec, 'volumes')) {
      expect(VOLUMES).toContain(Object.keys(volume).find(key => key !== 'name'))
    }
    for (const container of [...listAt(spec, 'containers'), ...listAt(spec, 'initContainers')]) {
      expect(container['securityContext']).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      })
      for (const port of listAt(container, 'ports')) expect(port).not.toHaveProperty('hostPort')
    }
  })
})

describe.skipIf(!has(HELM))('a pod passes the rules of chart linters', () => {
  it.each(named)('%s has resource requests and a memory limit', (_, { spec }) => {
    for (const container of listAt(spec, 'containers')) {
      const { requests, limits } = at(container, 'resources')
      expect(requests).toMatchObject({ cpu: expect.any(String), memory: expect.any(String) })
      expect(limits).toMatchObject({ memory: expect.any(String) })
    }
  })

  it.each(named)('%s runs a fixed image', (_, { spec }) => {
    for (const container of listAt(spec, 'containers')) {
      expect(textAt(container, 'image')).toMatch(/(?::\d[\w.-]*|@sha256:[0-9a-f]{64})$/)
    }
  })

  it.each(named)('%s has no token of Kubernetes and no Service links', (_, { spec }) => {
    expect(spec).toMatchObject({ automountServiceAccountToken: false, enableServiceLinks: false })
    expect(textAt(spec, 'serviceAccountName')).toBe('acme-postern')
  })

  it.each(named.filter(([, { owner }]) => !/^(?:Pod|CronJob) /.test(owner)))(
    '%s is probed on the ops port',
    (_, { spec }) => {
      const [container] = listAt(spec, 'containers')
      const ports = listAt(container, 'ports').map(({ name }) => name)
      const isConsole = textAt(container, 'name') === 'console'
      expect(ports).toEqual(isConsole ? ['http', 'internal', 'ops'] : ['http', 'ops'])
      const asked = ['startupProbe', 'livenessProbe', 'readinessProbe'].map(probe =>
        at(container, `${probe}.httpGet`),
      )
      expect(asked).toEqual([
        { path: '/livez', port: 'ops' },
        { path: '/livez', port: 'ops' },
        { path: '/readyz', port: 'ops' },
      ])
    },
  )

  it.each(named.filter(([, { owner }]) => !owner.startsWith('Pod ')))(
    '%s writes nowhere but to a sized /tmp, to the volume of SQLite, and to that of the backup',
    (_, { spec }) => {
      const [container] = listAt(spec, 'containers')
      const writable = listAt(container, 'volumeMounts').filter(({ readOnly }) => readOnly !== true)
      const places = writable.map(({ mountPath }) => mountPath)
      expect(
        places.filter(place => !['/tmp', '/var/lib/postern', '/backup'].includes(String(place))),
      ).toEqual([])
      const tmp = listAt(spec, 'volumes').find(({ name }) => name === 'tmp')
      expect(at(tmp, 'emptyDir')['sizeLimit']).toBe('64Mi')
    },
  )

  it.each(CI_FILES)('%s: every selector finds its own pods and no others', file => {
    const rendering = render({}, { files: [file] })
    const pods = podsOf(rendering)
    const finds = (selector: unknown) =>
      pods.filter(({ metadata }) =>
        Object.entries(selector as object).every(([label, value]) => at(metadata, 'labels')[label] === value),
      ).length
    for (const object of rendering.objects) {
      const kind = textAt(object, 'kind')
      const selector =
        kind === 'Service'
          ? valueAt(object, 'spec.selector')
          : kind === 'NetworkPolicy'
            ? valueAt(object, 'spec.podSelector.matchLabels')
            : valueAt(object, 'spec.selector.matchLabels')
      if (selector === undefined || kind === 'ServiceMonitor') continue
      expect(finds(selector), `${kind} ${textAt(object, 'metadata.name')}`).toBe(1)
    }
  })
})

describe.skipIf(!has(HELM))('on a platform that chooses the user', () => {
  const ANY_USER = { securityContext: { runAsUser: null, runAsGroup: null, fsGroup: null } }

  it.each([
    ['for all pods', { ...MINIMAL, pod: ANY_USER }],
    ['for one plane', { ...MINIMAL, gateway: { pod: ANY_USER } }],
  ])('null leaves the fixed user out, %s, and the mounted secrets can still be read', (_, values) => {
    const { spec } = podOf(render(values), 'gateway')
    expect(at(spec, 'securityContext')).toEqual({
      runAsNonRoot: true,
      fsGroupChangePolicy: 'OnRootMismatch',
      seccompProfile: { type: 'RuntimeDefault' },
    })
    const secrets = listAt(spec, 'volumes').find(({ name }) => name === 'secrets')
    expect(valueAt(secrets, 'projected.defaultMode')).toBe(0o444)
  })

  it('otherwise only the pod’s group can read them', () => {
    const secrets = listAt(podOf(render(MINIMAL), 'gateway').spec, 'volumes').find(
      ({ name }) => name === 'secrets',
    )
    expect(valueAt(secrets, 'projected.defaultMode')).toBe(0o440)
  })
})

describe.skipIf(!has(HELM))('no secret leaves its Secret', () => {
  it.each(named)('%s has no secret in its environment', (_, { spec }) => {
    for (const container of listAt(spec, 'containers')) {
      const names = listAt(container, 'env').map(entry => textAt(entry, 'name'))
      expect(names.filter(name => /SECRET|TOKEN|PASSWORD|_URL/.test(name))).toEqual([])
    }
  })

  it('generated secrets are only in the Secret', () => {
    const rendering = render(WITH_CONSOLE)
    const made = Object.values(at(rendering.get('Secret'), 'data')).flatMap(value => [
      String(value),
      Buffer.from(String(value), 'base64').toString(),
    ])
    expect(made).toHaveLength(6)
    const others = JSON.stringify(rendering.objects.filter(({ kind }) => kind !== 'Secret'))
    expect(made.filter(secret => others.includes(secret))).toEqual([])
  })

  it('the gateway gets no database credential and no admin token', () => {
    const rendering = render({}, { files: ['console-postgres-values.yaml'] })
    expect(Object.keys(mountedSecrets(rendering, 'gateway')).sort()).toEqual([
      'keyService.token',
      'keys.signingSecrets',
      'redis.url',
    ])
    expect(Object.keys(mountedSecrets(rendering, 'console')).sort()).toEqual([
      'console.adminToken',
      'database.url',
      'keyService.token',
      'keys.signingSecrets',
      'redis.url',
    ])
  })
})
