import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CHART, NAME, RELEASE } from '../support/chart.ts'
import { at, textAt, valueAt } from '../support/manifests.ts'
import { nextChart } from '../support/next-chart.ts'
import { type ControlPlane, untilInCluster } from './control-plane.ts'
import { buildChartTools } from './control-plane-programs.ts'
import { type Part, STEP_MS } from './on-control-plane.ts'

const ROLLOUT_MS = 90_000

interface HelmVersion {
  readonly version: string
  readonly program: () => string
}
const HELM_3: HelmVersion = { version: 'Helm 3', program: () => 'helm' }
const HELM_4: HelmVersion = { version: 'Helm 4', program: () => join(buildChartTools(), 'helm') }

let cluster: ControlPlane
/** Of a made-up next release. */
let next: string

/** A release that the chart makes of one of its examples. */
class InstalledRelease {
  readonly namespace: string
  readonly #program: string

  static async installed({ version, program }: HelmVersion, example: string): Promise<InstalledRelease> {
    const release = new InstalledRelease(`${example}-${version.toLowerCase().replace(' ', '-')}`, program())
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' }
    const metadata = { name: release.namespace, labels }
    await cluster.apply({ apiVersion: 'v1', kind: 'Namespace', metadata })
    await release.helm('install', RELEASE, CHART, '-f', join(CHART, `ci/${example}-values.yaml`))
    return release
  }

  private constructor(namespace: string, program: string) {
    this.namespace = namespace
    this.#program = program
  }

  /** @throws with Helm's error */
  async helm(...words: string[]): Promise<void> {
    const { ok, stderr } = await cluster.run(this.#program, [...words, '-n', this.namespace])
    if (!ok) throw new Error(stderr)
  }

  /** As docs/operate/upgrade.md says. */
  upgrade(): Promise<void> {
    return this.helm('upgrade', RELEASE, next, '--reset-then-reuse-values')
  }

  rollback(): Promise<void> {
    return this.helm('rollback', RELEASE, '1')
  }

  async ready(consoleKind: 'deployment' | 'statefulset'): Promise<void> {
    const isReady = async (kind: string, plane: string) => {
      const object = await cluster.get(kind, `${NAME}-${plane}`, this.namespace)
      const status = at(object, 'status')
      return (
        status['observedGeneration'] === valueAt(object, 'metadata.generation') &&
        status['readyReplicas'] === valueAt(object, 'spec.replicas') &&
        status['updatedReplicas'] === valueAt(object, 'spec.replicas')
      )
    }
    await untilInCluster('gateways are ready', () => isReady('deployment', 'gateway'), ROLLOUT_MS)
    await untilInCluster('the console is ready', () => isReady(consoleKind, 'console'), ROLLOUT_MS)
  }

  async image(): Promise<string> {
    const gateway = await cluster.get('deployment', `${NAME}-gateway`, this.namespace)
    return textAt(gateway, 'spec.template.spec.containers.0.image')
  }

  async consoleImage(): Promise<string> {
    return textAt(await cluster.get('pod', `${NAME}-console-0`, this.namespace), 'spec.containers.0.image')
  }

  async generatedSecret() {
    return at(await cluster.get('secret', `${NAME}-generated`, this.namespace), 'data')
  }

  async claims(): Promise<readonly string[][]> {
    const claims = await cluster.list('persistentvolumeclaims', this.namespace)
    return claims.map(claim => [textAt(claim, 'metadata.name'), textAt(claim, 'metadata.uid')])
  }
}

function withPostgres(versions: readonly HelmVersion[]): void {
  it.each(versions)('with PostgreSQL it is upgraded and rolled back by $version', async version => {
    const release = await InstalledRelease.installed(version, 'console-postgres')
    await release.ready('deployment')
    const image = await release.image()
    await release.upgrade()
    await release.ready('deployment')
    expect(await release.image()).not.toBe(image)
    await release.rollback()
    await release.ready('deployment')
    expect(await release.image()).toBe(image)
  })
}

function withSqlite(versions: readonly HelmVersion[]): void {
  it.each(versions)(
    'with SQLite it is upgraded and rolled back by $version, and keeps its secret and volume',
    async version => {
      const release = await InstalledRelease.installed(version, 'console-sqlite')
      await release.ready('statefulset')
      const secret = await release.generatedSecret()
      const volumes = await release.claims()
      expect(volumes).toHaveLength(1)
      const image = await release.consoleImage()
      await release.upgrade()
      await release.ready('statefulset')
      expect(await release.consoleImage()).not.toBe(image)
      expect(await release.generatedSecret()).toMatchObject(secret)
      expect(await release.claims()).toEqual(volumes)
      await release.rollback()
      await release.ready('statefulset')
      expect(await release.consoleImage()).toBe(image)
      expect(await release.claims()).toEqual(volumes)
    },
  )
}

const describeUpgrades =
  (declare: () => void): Part =>
  shared =>
    describe('a release of this chart', { concurrent: true, timeout: STEP_MS }, () => {
      beforeAll(() => {
        cluster = shared()
        next = nextChart()
      })
      afterAll(() => rmSync(next, { recursive: true }))
      declare()
    })

export const describeUpgrade = describeUpgrades(() => withPostgres([HELM_3]))

/** By both versions of Helm, and with SQLite too. */
export const describeEveryUpgrade = describeUpgrades(() => {
  withPostgres([HELM_3, HELM_4])
  withSqlite([HELM_3, HELM_4])
})
