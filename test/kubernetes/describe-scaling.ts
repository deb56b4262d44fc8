import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { shellBlocks } from '../docs/shell-blocks.ts'
import { CHART, MINIMAL, settingsFileOf, type Values } from '../support/chart.ts'
import { at, valueAt } from '../support/manifests.ts'
import { has, JQ } from '../support/tools.ts'
import { until } from '../support/until.ts'
import { type CommandResult, type ControlPlane, untilInCluster } from './control-plane.ts'
import { buildChartTools, programOf } from './control-plane-programs.ts'
import { definitionFiles } from './custom-resources.ts'
import { type Part, STEP_MS } from './on-control-plane.ts'

/** The names of docs/operate/upgrade.md. */
const RELEASE = 'postern'
const GATEWAY = 'deployment/postern-gateway'
const PAGE = 'docs/operate/upgrade.md'
const RUNBOOKS = 'helm/runbooks/alerts.md'
const ROLLOUT_MS = 60_000

interface Version {
  readonly name: string
  /** Folder of its program; null: the one of the path. */
  readonly folder: () => string | null
  /** Rolls back an upgrade that fails. */
  readonly atomic: string
  /** Recognises the block of the page that is for it. */
  readonly block: RegExp
  readonly conflicts: boolean
}
export const HELM_VERSIONS: readonly Version[] = [
  { name: 'Helm 3', folder: () => null, atomic: '--atomic', block: /data\.release/, conflicts: false },
  {
    name: 'Helm 4',
    folder: buildChartTools,
    atomic: '--rollback-on-failure',
    block: /kubectl .*scale/,
    conflicts: true,
  },
]
const [HELM_3, HELM_4] = HELM_VERSIONS as [Version, Version]
/** The one that is maintained; Helm 3 is at its end. */
export const NEWEST_HELM: readonly Version[] = [HELM_4]

export interface Autoscaler {
  readonly name: string
  readonly gateway: Values
  /** Options of the page that hand the number to it. */
  readonly set: string
  /** Whether it needs the ScaledObject of the chart's example. */
  readonly keda?: boolean
  /** To which it raises a new release; undefined: here it does nothing by itself. */
  readonly leastPods?: number
}
export const AUTOSCALERS: readonly Autoscaler[] = [
  {
    name: 'the chart’s own autoscaler',
    gateway: { autoscaling: { enabled: true, minReplicas: 2 } },
    set: '--set gateway.autoscaling.enabled=true',
    leastPods: 2,
  },
  { name: 'KEDA', gateway: { replicas: null }, set: '--set gateway.replicas=null', keda: true, leastPods: 2 },
  { name: 'another autoscaler', gateway: { replicas: null }, set: '--set gateway.replicas=null' },
]

/** No node has this label, so that a new pod stays pending. */
const BROKEN = { gateway: { pod: { nodeSelector: { no: 'node' } } } }
/** Also what the rollback may take, beside the other tests. */
const FAILS_AFTER = '20s'

let cluster: ControlPlane
let folders: string

/** A release in a namespace of its own, with the folder that the page's commands run in. */
class Release {
  readonly folder: string
  readonly #namespace: string
  readonly #base: Values
  #version: Version
  #isKeda: boolean

  static async installed(version: Version, gateway: Values, isKeda = false): Promise<Release> {
    const namespace = `scaling-${++count}`
    await cluster.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
    const release = new Release(namespace, version, gateway, isKeda)
    await release.#succeed('install', RELEASE, './helm', ...release.values())
    if (isKeda) await release.actAsKeda()
    return release
  }

  private constructor(namespace: string, version: Version, gateway: Values, isKeda: boolean) {
    this.#namespace = namespace
    this.#version = version
    this.#base = {
      ...MINIMAL,
      config: { ...MINIMAL.config, drain: { delayMs: 0, timeoutMs: 0 } },
      gateway: { minReadySeconds: 0, ...gateway },
    }
    this.folder = join(folders, namespace)
    mkdirSync(join(this.folder, 'values'), { recursive: true })
    symlinkSync(CHART, join(this.folder, 'helm'))
    this.#isKeda = isKeda
  }

  use(version: Version): void {
    this.#version = version
  }

  /** Options for the release's values with further ones. */
  values(...more: readonly Values[]): string[] {
    const file = join(this.folder, `values/${++count}.yaml`)
    writeFileSync(file, stringify(this.#base))
    const keda = this.#isKeda ? ['-f', `${CHART}ci/keda-values.yaml`] : []
    return [
      ...keda,
      '-f',
      file,
      ...more.flatMap(values => {
        const further = join(this.folder, `values/${++count}.yaml`)
        writeFileSync(further, stringify(values))
        return ['-f', further]
      }),
    ]
  }

  helm(...words: readonly string[]): Promise<CommandResult> {
    return this.run(`helm -n postern ${words.join(' ')}`)
  }

  upgrade(level: string, ...flags: readonly string[]): Promise<CommandResult> {
    return this.helm('upgrade', RELEASE, './helm', ...this.values({ config: { log: { level } } }), ...flags)
  }

  /** Runs commands of a page with this version of Helm, in the release's namespace. */
  run(script: string): Promise<CommandResult> {
    const folders = [this.#version.folder(), programOf('kubectl').replace(/\/kubectl$/, '')]
    const path = [...folders.filter(folder => folder !== null), process.env['PATH']].join(':')
    const own = script
      .replaceAll('-n postern', `-n ${this.#namespace}`)
      .replaceAll('NS=postern', `NS=${this.#namespace}`)
    return cluster.run('bash', ['-euo', 'pipefail', '-c', own], {
      cwd: this.folder,
      environment: { PATH: path },
    })
  }

  kubectl(...words: readonly string[]): Promise<string> {
    return cluster.kubectl('-n', this.#namespace, ...words)
  }

  /** As an autoscaler does, by the subresource of the Deployment. */
  async scale(number: number): Promise<void> {
    await this.kubectl('scale', GATEWAY, `--replicas=${number}`)
  }

  #workload() {
    return cluster.get('deployment', 'postern-gateway', this.#namespace)
  }

  async replicas(): Promise<unknown> {
    return valueAt(await this.#workload(), 'spec.replicas')
  }

  /**
   * Waits until the autoscaler has raised the release to this many pods. It repeats an update that met another one, with the
   * number that it chose before: a number set meanwhile would be lost.
   */
  async raisedTo(number: number): Promise<void> {
    await untilInCluster(`it has ${number} pods`, async () => (await this.replicas()) === number, ROLLOUT_MS)
  }

  async level(): Promise<string> {
    return /level: (\w+)/.exec(settingsFileOf(at(await this.#workload(), 'spec.template')))?.[1] ?? 'none'
  }

  /** Waits until this many pods are available. @throws with the state of the Deployment, its autoscaler and its pods */
  async available(number: number): Promise<void> {
    const isSo = async () => valueAt(await this.#workload(), 'status.availableReplicas') === number
    try {
      await untilInCluster(`${number} pods are available`, isSo, ROLLOUT_MS)
    } catch (error) {
      throw new Error(await this.kubectl('get', 'deployments,replicasets,hpa,pods', '-o', 'wide'), {
        cause: error,
      })
    }
  }

  /** Does something, and returns each number of pods that the Deployment had meanwhile. */
  async numbersDuring(act: () => Promise<void>): Promise<number[]> {
    const columns = 'jsonpath={.metadata.generation} {.spec.replicas}{"\\n"}'
    const args = ['-n', this.#namespace, 'get', GATEWAY, '--watch', '-o', columns]
    const watch = spawn(programOf('kubectl'), args, {
      env: { ...process.env, KUBECONFIG: cluster.kubeconfig },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const seen: (readonly number[])[] = []
    createInterface({ input: watch.stdout }).on('line', line => seen.push(line.split(' ').map(Number)))
    await until('the watch has begun', () => seen.length > 0, ROLLOUT_MS)
    await act()
    const last = Number(valueAt(await this.#workload(), 'metadata.generation'))
    // An autoscaler may have gone on meanwhile.
    await until('the watch saw the end', () => (seen.at(-1)?.[0] ?? 0) >= last, ROLLOUT_MS)
    watch.kill()
    await once(watch, 'exit')
    return seen.map(([, number = 0]) => number)
  }

  async #succeed(...words: readonly string[]): Promise<void> {
    const { ok, stderr } = await this.helm(...words)
    if (!ok) throw new Error(stderr)
  }

  /** From now on with the ScaledObject of the chart's example. */
  hasKeda(): void {
    this.#isKeda = true
  }

  /** What KEDA's operator makes of the ScaledObject; the operator itself does not run. */
  async actAsKeda(): Promise<void> {
    const scaled = at(await cluster.get('scaledobject', 'postern-gateway', this.#namespace), 'spec')
    await cluster.apply({
      apiVersion: 'autoscaling/v2',
      kind: 'HorizontalPodAutoscaler',
      metadata: { name: 'keda-hpa-postern-gateway', namespace: this.#namespace },
      spec: {
        scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'postern-gateway' },
        minReplicas: scaled['minReplicaCount'],
        maxReplicas: scaled['maxReplicaCount'],
        metrics: [
          {
            type: 'External',
            external: {
              metric: { name: 's0-prometheus' },
              target: { type: 'AverageValue', averageValue: 64 },
            },
          },
        ],
      },
    })
  }
}
let count = 0

/** The page's commands for the first switch, with the values of a release. */
function switchOf(version: Version, scaler: Autoscaler, values: readonly string[], flags = ''): string {
  const block = shellBlocks(PAGE).find(({ text }) => version.block.test(text))?.text ?? ''
  expect(block).toContain('--set gateway.autoscaling.enabled=true')
  return block
    .replace('--values values.yaml', `${values.join(' ')} ${flags}`)
    .replace('--set gateway.autoscaling.enabled=true', scaler.set)
}

/** The runbook's command that contains these words, after the block that defines its names. */
function runbook(words: string): string {
  const [names, ...blocks] = shellBlocks(RUNBOOKS).map(({ text }) => text)
  const command = blocks.find(text => text.includes(words))
  if (names === undefined || command === undefined) throw new Error(`No command with ${words}`)
  return `${names}\n${command}`
}

/** Upgrades, rolls back and switches releases beside each of the autoscalers, with each version of Helm. */
export function describeScaling(scalers: readonly Autoscaler[], versions: readonly Version[]): Part {
  const pairs = versions.flatMap(version => scalers.map(scaler => ({ version, scaler })))
  return shared =>
    describe.skipIf(!has(JQ))('the number of gateways', { concurrent: true, timeout: STEP_MS }, () => {
      beforeAll(async () => {
        folders = mkdtempSync(join(tmpdir(), 'postern-scaling-'))
        cluster = shared()
        if (!scalers.some(({ keda }) => keda)) return
        for (const file of definitionFiles().filter(name => name.includes('keda'))) {
          await cluster.kubectl('create', '-f', file)
        }
      })
      afterAll(() => rmSync(folders, { recursive: true }))

      it.each(pairs)(
        '$version.name, $scaler.name: the running number outlives upgrade, failed upgrade, rollback and undo',
        async ({ version, scaler }) => {
          const release = await Release.installed(version, scaler.gateway, scaler.keda)
          if (scaler.leastPods !== undefined) await release.raisedTo(scaler.leastPods)
          await release.scale(8)
          await release.available(8)
          const numbers = await release.numbersDuring(async () => {
            expect(await release.upgrade('warn')).toMatchObject({ ok: true })
            await release.available(8)
            const flags = [...release.values(BROKEN), version.atomic, '--timeout', FAILS_AFTER]
            const failed = await release.upgrade('error', ...flags)
            expect(failed.ok).toBe(false)
            expect(failed.stderr).toContain('has been rolled back')
            expect(await release.level()).toBe('warn')
            expect(await release.helm('rollback', RELEASE, '1')).toMatchObject({ ok: true })
            expect(await release.level()).toBe('none')
            await release.available(8)
            await release.kubectl('rollout', 'undo', GATEWAY)
            expect(await release.level()).not.toBe('none')
          })
          expect(new Set(numbers)).toEqual(new Set([8]))
        },
      )

      it.each(pairs)(
        '$version.name, $scaler.name: the first switch from a fixed number, also one that fails, takes no pod away',
        async ({ version, scaler }) => {
          const release = await Release.installed(version, { replicas: 4 })
          await release.available(4)
          if (scaler.keda) release.hasKeda()
          const numbers = await release.numbersDuring(async () => {
            const flags = `${version.atomic} --timeout ${FAILS_AFTER}`
            const failed = await release.run(switchOf(version, scaler, release.values(BROKEN), flags))
            expect(failed.ok).toBe(false)
            expect(failed.stderr).toContain('has been rolled back')
            expect(await release.replicas()).toBe(4)
            expect(await release.run(switchOf(version, scaler, release.values()))).toMatchObject({ ok: true })
            if (scaler.keda) await release.actAsKeda()
            await release.scale(8)
            await release.available(8)
            expect(await release.upgrade('warn', scaler.set)).toMatchObject({ ok: true })
            expect(await release.helm('rollback', RELEASE)).toMatchObject({ ok: true })
            expect(await release.replicas()).toBe(8)
          })
          expect(Math.min(...numbers)).toBe(4)
          expect(numbers.at(-1)).toBe(8)
        },
      )

      it('Helm 4 takes a release of Helm 3 over, and the first switch takes no pod away', async () => {
        const [own] = AUTOSCALERS as [Autoscaler]
        const release = await Release.installed(HELM_3, { replicas: 4 })
        await release.available(4)
        release.use(HELM_4)
        const numbers = await release.numbersDuring(async () => {
          expect(await release.run(switchOf(HELM_4, own, release.values()))).toMatchObject({ ok: true })
        })
        expect(Math.min(...numbers)).toBe(4)
      })

      it.each(versions)(
        '$name: without that preparation the first switch leaves one pod, until the autoscaler has seen it',
        async version => {
          const [own] = AUTOSCALERS as [Autoscaler]
          const release = await Release.installed(version, { replicas: 4 })
          const numbers = await release.numbersDuring(async () => {
            expect(await release.upgrade('warn', own.set)).toMatchObject({ ok: true })
          })
          expect(numbers).toContain(1)
        },
      )

      it.each(versions)('$name: a rollback over the switch restores what the page says', async version => {
        const [own] = AUTOSCALERS as [Autoscaler]
        const release = await Release.installed(version, { replicas: 4 })
        expect(await release.run(switchOf(version, own, release.values()))).toMatchObject({ ok: true })
        await release.scale(8)
        const back = ['rollback', RELEASE, '1', ...(version.conflicts ? ['--force-conflicts'] : [])]
        expect(await release.helm(...back)).toMatchObject({ ok: true })
        expect(await release.replicas()).toBe(version.conflicts ? 4 : 8)
      })

      it.each(versions)(
        '$name: after the runbook’s commands an upgrade works as the page says',
        async version => {
          const release = await Release.installed(version, { replicas: 4 })
          // A restart adds an annotation that no manifest has, so that nothing conflicts.
          expect(await release.run(runbook('rollout restart'))).toMatchObject({ ok: true })
          expect(await release.upgrade('warn')).toMatchObject({ ok: true })
          const repaired = async (level: string, conflict: RegExp) => {
            const flags = version.conflicts ? ['--force-conflicts'] : []
            if (version.conflicts) {
              const refused = await release.upgrade(level)
              expect([refused.ok, refused.stderr]).toEqual([false, expect.stringMatching(conflict)])
            }
            expect(await release.upgrade(level, ...flags)).toMatchObject({ ok: true })
            expect([await release.replicas(), await release.level()]).toEqual([4, level])
          }
          expect(await release.run(runbook('rollout undo'))).toMatchObject({ ok: true })
          expect(await release.level()).toBe('none')
          // The same settings, so without a conflict; but kubectl stays an owner of them.
          expect(await release.helm('rollback', RELEASE, '1')).toMatchObject({ ok: true })
          await repaired('error', /conflict with "kubectl".*\.spec\.template/)
          expect(await release.run(runbook('scale deployment'))).toMatchObject({ ok: true })
          expect(await release.replicas()).toBe(6)
          await repaired('debug', /conflict with "kubectl".*\.spec\.replicas/)
        },
      )
    })
}
