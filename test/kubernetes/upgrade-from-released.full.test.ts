import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CHART, NAME, RELEASE } from '../support/chart.ts'
import { at, textAt, valueAt } from '../support/manifests.ts'
import { findReleaseBefore } from '../support/release-before.ts'
import { GO, HELM, has, PYTHON } from '../support/tools.ts'
import { until } from '../support/until.ts'
import { ControlPlane } from './control-plane.ts'
import { buildChartTools, buildControlPlane } from './control-plane-programs.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const REUSE = '--reset-then-reuse-values'
const IMAGE = ['--set', 'image.repository=registry.example.com/postern']
const ROLLOUT_MS = 90_000
const before = findReleaseBefore()
/** Each version of Helm with its program. */
const VERSIONS = [
  { version: 'Helm 3', program: () => 'helm' },
  { version: 'Helm 4', program: () => join(buildChartTools(), 'helm') },
]
const isPossible = before !== null && [GO, HELM, PYTHON].every(has)

describe.skipIf(!isPossible)(
  'the chart of the release before, on a real Kubernetes API (needs its history)',
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'postern-chart-before-'))
    const chartBefore = join(folder, 'helm')
    let cluster: ControlPlane
    let program = 'helm'
    beforeAll(async () => {
      const archive = execFileSync('git', ['archive', '--format=tar', before ?? '', 'helm'], { cwd: ROOT })
      execFileSync('tar', ['-x', '-C', folder], { input: archive })
      buildControlPlane()
      buildChartTools()
      cluster = await ControlPlane.start()
    }, 30 * 60_000)
    afterAll(async () => {
      await cluster?.stop()
      rmSync(folder, { recursive: true })
    }, 30_000)

    async function installBefore(namespace: string, example: string): Promise<void> {
      const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' }
      await cluster.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace, labels } })
      await helm(namespace, 'install', RELEASE, chartBefore, '-f', join(chartBefore, `ci/${example}.yaml`))
    }

    /** @throws with Helm's error */
    async function helm(namespace: string, ...words: string[]): Promise<void> {
      const { ok, stderr } = await cluster.run(program, [...words, '-n', namespace])
      if (!ok) throw new Error(stderr)
    }

    /** As docs/operate/upgrade.md says. */
    function upgrade(namespace: string, ...flags: string[]): Promise<void> {
      return helm(namespace, 'upgrade', RELEASE, CHART, ...flags, ...IMAGE)
    }

    async function isReady(kind: string, plane: string, namespace: string): Promise<boolean> {
      const object = await cluster.get(kind, `${NAME}-${plane}`, namespace)
      const status = at(object, 'status') as Record<string, unknown>
      return (
        status['observedGeneration'] === valueAt(object, 'metadata.generation') &&
        status['readyReplicas'] === valueAt(object, 'spec.replicas') &&
        status['updatedReplicas'] === valueAt(object, 'spec.replicas')
      )
    }

    async function waitForBoth(namespace: string, consoleKind: string): Promise<void> {
      await until('gateways are ready', () => isReady('deployment', 'gateway', namespace), ROLLOUT_MS)
      await until('the console is ready', () => isReady(consoleKind, 'console', namespace), ROLLOUT_MS)
    }

    const imageOf = async (namespace: string) =>
      textAt(
        await cluster.get('deployment', `${NAME}-gateway`, namespace),
        'spec.template.spec.containers.0.image',
      )

    const consoleImageOf = async (namespace: string) =>
      textAt(await cluster.get('pod', `${NAME}-console-0`, namespace), 'spec.containers.0.image')

    it.each(VERSIONS)(
      'with PostgreSQL it is upgraded, rolled back and upgraded again by $version',
      async given => {
        program = given.program()
        const namespace = `postgres-${given.version.toLowerCase().replace(' ', '-')}`
        await installBefore(namespace, 'console-postgres')
        await waitForBoth(namespace, 'deployment')
        const image = await imageOf(namespace)
        // The same values under the names of today.
        const values = ['-f', join(ROOT, 'test/helm/released/0.1.0/console-postgres.yaml')]
        await upgrade(namespace, ...values)
        await waitForBoth(namespace, 'deployment')
        expect(await imageOf(namespace)).not.toBe(image)
        await helm(namespace, 'rollback', RELEASE, '1')
        await waitForBoth(namespace, 'deployment')
        expect(await imageOf(namespace)).toBe(image)
        await upgrade(namespace, ...values)
        await waitForBoth(namespace, 'deployment')
      },
      300_000,
    )

    it.each(VERSIONS)(
      'with SQLite it is upgraded, and rolled back, by $version after its StatefulSet was deleted, and keeps its secret and volume',
      async given => {
        program = given.program()
        const namespace = `sqlite-${given.version.toLowerCase().replace(' ', '-')}`
        await installBefore(namespace, 'console-sqlite')
        await waitForBoth(namespace, 'statefulset')
        const secret = await cluster.get('secret', `${NAME}-generated`, namespace)
        const claims = async () =>
          (await cluster.list('persistentvolumeclaims', namespace)).map(claim => [
            textAt(claim, 'metadata.name'),
            textAt(claim, 'metadata.uid'),
          ])
        const volumes = await claims()
        expect(volumes).toHaveLength(1)
        const imageBefore = await consoleImageOf(namespace)
        await expect(upgrade(namespace, REUSE)).rejects.toThrow(/delete statefulset .*--cascade=orphan/)
        // The command of docs/operate/upgrade.md, for both ways.
        expect(
          readFileSync(join(ROOT, 'docs/operate/upgrade.md'), 'utf8').match(
            /delete statefulset postern-console --cascade=orphan/g,
          ),
        ).toHaveLength(2)
        const deleteWorkload = ['delete', 'statefulset', `${NAME}-console`, '--cascade=orphan']
        await cluster.kubectl('-n', namespace, ...deleteWorkload)
        await upgrade(namespace, REUSE)
        await waitForBoth(namespace, 'statefulset')
        const kept = await cluster.get('secret', `${NAME}-generated`, namespace)
        expect(at(kept, 'data')).toMatchObject(at(secret, 'data') ?? {})
        expect(await claims()).toEqual(volumes)
        await expect(helm(namespace, 'rollback', RELEASE, '1')).rejects.toThrow(/updates to statefulset spec/)
        await cluster.kubectl('-n', namespace, ...deleteWorkload)
        await helm(namespace, 'rollback', RELEASE, '1')
        await waitForBoth(namespace, 'statefulset')
        expect(await consoleImageOf(namespace)).toBe(imageBefore)
        expect(await claims()).toEqual(volumes)
      },
      300_000,
    )
  },
)
