import { rmSync } from 'node:fs'
import { describe, expect, it, onTestFinished } from 'vitest'
import { CI_FILES, render } from '../support/chart.ts'
import { listAt, type Manifest, textAt, valueAt } from '../support/manifests.ts'
import { type ChartEdit, nextChart } from '../support/next-chart.ts'
import { HELM, has } from '../support/tools.ts'

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

/** Fields that others depend on: selectors and ports of Services, names of containers, ports and volumes. */
const RELIED_UPON: Readonly<Record<string, (object: Manifest) => unknown>> = {
  Service: object => [
    valueAt(object, 'spec.selector'),
    listAt(object, 'spec.ports').map(({ name, port }) => ({ name, port })),
  ],
  PodDisruptionBudget: object => valueAt(object, 'spec.selector'),
  HorizontalPodAutoscaler: object => valueAt(object, 'spec.scaleTargetRef'),
  Deployment: podOf,
  StatefulSet: podOf,
  Secret: object => [
    valueAt(object, 'metadata.annotations', 'helm.sh/resource-policy'),
    Object.keys((valueAt(object, 'data') ?? {}) as object).toSorted(),
  ],
}

function podOf(object: Manifest): unknown {
  return {
    containers: listAt(object, 'spec.template.spec.containers').map(container => ({
      name: container['name'],
      ports: listAt(container, 'ports').map(({ name }) => name),
    })),
    claims: listAt(object, 'spec.template.spec.volumes').flatMap(
      volume => valueAt(volume, 'persistentVolumeClaim.claimName') ?? [],
    ),
    account: valueAt(object, 'spec.template.spec.serviceAccountName'),
  }
}

const identityOf = (object: Manifest) => `${textAt(object, 'kind')} ${textAt(object, 'metadata.name')}`

/** What an upgrade of a release with these example values to the next chart would break. */
function broken(example: string, ...edits: readonly ChartEdit[]): string[] {
  const chart = nextChart(...edits)
  onTestFinished(() => rmSync(chart, { recursive: true }))
  const [before, after] = [render({}, { files: [example] }), render({}, { files: [example], chart })]
  expect(before.ok && after.ok, before.stderr + after.stderr).toBe(true)
  const now = new Map(after.objects.map(object => [identityOf(object), object]))
  const differs = (a: unknown, b: unknown) => JSON.stringify(a) !== JSON.stringify(b)
  return before.objects.flatMap(object => {
    const [kind, identity] = [textAt(object, 'kind'), identityOf(object)]
    // A ConfigMap is named after its content. With a cluster, the chart renders those of earlier revisions again.
    if (kind === 'ConfigMap') return []
    const same = now.get(identity)
    if (same === undefined) return [`${identity} is removed`]
    const changed = (IMMUTABLE[kind] ?? []).filter(path =>
      differs(valueAt(object, path), valueAt(same, path)),
    )
    const reliedUpon = RELIED_UPON[kind]
    return [
      ...changed.map(path => `${identity} ${path} is immutable`),
      ...(reliedUpon && differs(reliedUpon(object), reliedUpon(same)) ? [`${identity} is relied upon`] : []),
    ]
  })
}

/** Each would break an upgrade. */
const BREAKING: readonly (readonly [edit: ChartEdit, says: RegExp])[] = [
  [
    {
      file: 'templates/console/workload.yaml',
      from: 'podManagementPolicy: Parallel',
      to: 'podManagementPolicy: OrderedReady',
    },
    /^StatefulSet \S+ spec\.podManagementPolicy is immutable$/,
  ],
  [
    // A selector with a version, as the labels of all objects have it.
    {
      file: 'templates/_names.tpl',
      from: 'app.kubernetes.io/component: {{ .plane }}',
      to: 'app.kubernetes.io/component: {{ .plane }}-{{ .root.Chart.Version }}',
    },
    /^Deployment \S+ spec\.selector is immutable$/,
  ],
]

describe.skipIf(!has(HELM))('an upgrade to the chart of the next release', () => {
  it.each(CI_FILES)('removes nothing and changes nothing that is immutable or relied upon: %s', example => {
    expect(broken(example)).toEqual([])
  })

  it.each(BREAKING)('would be found to be broken by %s', (edit, says) => {
    expect(broken('console-sqlite-values.yaml', edit)).toContainEqual(expect.stringMatching(says))
  })
})
