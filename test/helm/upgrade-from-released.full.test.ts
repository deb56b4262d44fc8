import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { render, type Values } from '../support/chart.ts'
import { listAt, type Manifest, textAt, valueAt } from '../support/manifests.ts'
import { HELM, has } from '../support/tools.ts'

const RELEASED = fileURLToPath(new URL('released/', import.meta.url))
const versions = readdirSync(RELEASED, { withFileTypes: true }).flatMap(entry =>
  entry.isDirectory() ? [entry.name] : [],
)
const examples = versions.flatMap(version =>
  readdirSync(`${RELEASED}${version}`)
    .filter(file => !file.endsWith('.rendered.yaml'))
    .map(file => [version, file.replace('.yaml', '')] as const),
)

/**
 * What docs/operate/upgrade.md says to add to values of a release, without which the chart would refuse them. Before 0.2.0, a
 * release without the console generated a signing secret, and the image had a name that no registry has.
 */
const ADDED: Readonly<Record<string, readonly string[]>> = {
  '0.1.0/minimal': ['secrets.keys.signingSecrets.existingSecret=acme-postern-generated'],
  '0.1.0/redis-sentinel': ['secrets.keys.signingSecrets.existingSecret=acme-postern-generated'],
  '0.1.0/upstream-own-ca': ['secrets.keys.signingSecrets.existingSecret=acme-postern-generated'],
}

/** Immutable fields, by kind: an upgrade that changes them fails half-way. */
const IMMUTABLE: Readonly<Record<string, readonly string[]>> = {
  Deployment: ['spec.selector'],
  StatefulSet: ['spec.selector', 'spec.serviceName', 'spec.podManagementPolicy', 'spec.volumeClaimTemplates'],
  Service: ['spec.clusterIP'],
  PersistentVolumeClaim: [
    'spec.accessModes',
    'spec.storageClassName',
    'spec.volumeMode',
    'spec.resources.requests.storage',
  ],
  Secret: ['type', 'immutable'],
}

/** docs/operate/upgrade.md says what to do; with a cluster, the chart refuses to render before. */
const CHANGED_ON_PURPOSE = ['0.1.0 StatefulSet spec.podManagementPolicy']

/** Fields that others depend on: selectors and ports of Services, names of keys in a Secret. */
type AtLeast = (names: unknown[]) => unknown
const exactly: AtLeast = names => names
const RELIED_UPON: Readonly<Record<string, (object: Manifest, atLeast: AtLeast) => unknown>> = {
  Service: object => [
    valueAt(object, 'spec.selector'),
    listAt(object, 'spec.ports').map(({ name, port }) => ({ name, port })),
  ],
  PodDisruptionBudget: object => valueAt(object, 'spec.selector'),
  HorizontalPodAutoscaler: object => valueAt(object, 'spec.scaleTargetRef'),
  Deployment: podOf,
  StatefulSet: podOf,
}

/** Names by which monitors, tests and operators find a container, and the volume with the console's data. */
function podOf(object: Manifest, atLeast: AtLeast): unknown {
  return {
    containers: listAt(object, 'spec.template.spec.containers').map(container => ({
      name: container['name'],
      ports: atLeast(listAt(container, 'ports').map(({ name }) => name)),
    })),
    claims: listAt(object, 'spec.template.spec.volumes').flatMap(
      volume => valueAt(volume, 'persistentVolumeClaim.claimName') ?? [],
    ),
    account: valueAt(object, 'spec.template.spec.serviceAccountName'),
  }
}

function releasedObjects(version: string, example: string): Manifest[] {
  return parseAllDocuments(readFileSync(`${RELEASED}${version}/${example}.rendered.yaml`, 'utf8'))
    .map(document => document.toJS() as Manifest | null)
    .filter(object => object !== null)
}

const identityOf = (object: Manifest) => `${textAt(object, 'kind')} ${textAt(object, 'metadata.name')}`

describe.skipIf(!has(HELM))('values of a released version can be kept on upgrade', () => {
  it('of the last one at least', () => {
    expect(versions).not.toEqual([])
    expect(examples.length).toBeGreaterThanOrEqual(8)
  })

  describe.each(examples)('%s: %s', (version, example) => {
    const values = parse(readFileSync(`${RELEASED}${version}/${example}.yaml`, 'utf8')) as Values
    const now = () => {
      const added = [
        ...(ADDED[`${version}/${example}`] ?? []),
        'image.repository=registry.example.com/postern',
      ]
      const args = added.flatMap(setting => ['--set', setting])
      const rendering = render(values, { args })
      expect(rendering.ok, rendering.stderr).toBe(true)
      return new Map(rendering.objects.map(object => [identityOf(object), object]))
    }
    // A ConfigMap is named after its content. With a cluster, the chart renders those of earlier revisions again.
    const before = releasedObjects(version, example).filter(({ kind }) => kind !== 'ConfigMap')

    it('they are accepted, and no object is removed but a Secret, which Helm keeps', () => {
      const objects = now()
      const removed = before.filter(({ kind }) => kind !== 'Secret').map(identityOf)
      expect(removed.filter(identity => !objects.has(identity))).toEqual([])
    })

    it('no immutable field changes, and none that others depend on', () => {
      const objects = now()
      for (const old of before) {
        const kind = textAt(old, 'kind')
        const same = objects.get(identityOf(old))
        if (same === undefined) continue
        for (const path of IMMUTABLE[kind] ?? []) {
          if (CHANGED_ON_PURPOSE.includes(`${version} ${kind} ${path}`)) continue
          expect([identityOf(old), path, valueAt(same, path)]).toEqual([
            identityOf(old),
            path,
            valueAt(old, path),
          ])
        }
        const relied = RELIED_UPON[kind]
        if (relied !== undefined) {
          // A further port of a container does not change the existing ones.
          const expected = relied(old, names => expect.arrayContaining(names))
          expect([identityOf(old), relied(same, exactly)]).toEqual([identityOf(old), expected])
        }
      }
    })

    it('generated secrets are kept, under the same names', () => {
      const objects = now()
      for (const old of before.filter(({ kind }) => kind === 'Secret')) {
        expect(valueAt(old, 'metadata.annotations', 'helm.sh/resource-policy')).toBe('keep')
        const same = objects.get(identityOf(old))
        if (same === undefined) {
          expect(JSON.stringify([...objects.values()])).toContain(`"name":"${textAt(old, 'metadata.name')}"`)
          continue
        }
        expect(valueAt(same, 'metadata.annotations', 'helm.sh/resource-policy')).toBe('keep')
        const keys = Object.keys((valueAt(old, 'data') ?? {}) as object)
        expect(Object.keys((valueAt(same, 'data') ?? {}) as object)).toEqual(expect.arrayContaining(keys))
      }
    })
  })
})
