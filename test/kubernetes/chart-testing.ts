import { execFile, execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe } from 'vitest'
import { CHART } from '../support/chart.ts'
import { pythonEnvironment } from '../support/python-environment.ts'
import { GO, HELM, has, PYTHON } from '../support/tools.ts'
import { type CommandResult, ControlPlane } from './control-plane.ts'
import { buildControlPlane, programOf } from './control-plane-programs.ts'
import { definitionFiles } from './custom-resources.ts'

const CONFIGURATION = fileURLToPath(new URL('../../.ct/', import.meta.url))
const BUILD_MS = 30 * 60_000
/** Of one command. */
export const RUN_MS = 10 * 60_000

/** `ct` as its documentation runs it: in a Git checkout, with the configuration of `.ct/`; to install, against a real Kubernetes API. */
class ChartTesting {
  readonly #cluster: ControlPlane | null
  readonly #checkout: string

  private constructor(cluster: ControlPlane | null, checkout: string) {
    this.#cluster = cluster
    this.#checkout = checkout
  }

  static async start(command: 'lint' | 'install'): Promise<ChartTesting> {
    buildControlPlane()
    const checkout = mkdtempSync(join(tmpdir(), 'postern-chart-testing-'))
    cpSync(CHART, join(checkout, 'helm'), { recursive: true })
    cpSync(CONFIGURATION, join(checkout, '.ct'), { recursive: true })
    execFileSync('git', ['init', '-q'], { cwd: checkout })
    addPython(checkout, 'yamllint', 'yamllint')
    addPython(checkout, 'yamale', 'yamale.command_line')
    if (command === 'lint') return new ChartTesting(null, checkout)
    const cluster = await ControlPlane.start()
    for (const file of definitionFiles()) await cluster.kubectl('create', '-f', file)
    await cluster.apply({
      apiVersion: 'scheduling.k8s.io/v1',
      kind: 'PriorityClass',
      metadata: { name: 'edge' },
      value: 1000,
    })
    return new ChartTesting(cluster, checkout)
  }

  run(...args: string[]): Promise<CommandResult> {
    const folders = [join(this.#checkout, 'bin'), dirname(programOf('kubectl')), process.env['PATH']]
    const home = join(this.#checkout, '.helm')
    const env = {
      ...process.env,
      PATH: folders.join(':'),
      HELM_CACHE_HOME: home,
      HELM_CONFIG_HOME: home,
      ...(this.#cluster === null ? {} : { KUBECONFIG: this.#cluster.kubeconfig }),
    }
    const options = { env, cwd: this.#checkout, maxBuffer: 64 * 1024 * 1024, timeout: RUN_MS }
    const { promise, resolve } = Promise.withResolvers<CommandResult>()
    execFile(programOf('ct'), args, options, (error, stdout, stderr) =>
      resolve({ ok: error === null, stdout, stderr }),
    )
    return promise
  }

  async stop(): Promise<void> {
    await this.#cluster?.stop()
    rmSync(this.#checkout, { recursive: true, force: true })
  }
}

/** Puts a Python program on the path of `ct`. */
function addPython(checkout: string, name: 'yamale' | 'yamllint', module: string): void {
  const python = join(pythonEnvironment(name), 'python3')
  mkdirSync(join(checkout, 'bin'), { recursive: true })
  writeFileSync(join(checkout, 'bin', name), `#!/bin/sh\nexec ${python} -m ${module} "$@"\n`, { mode: 0o755 })
}

/** @param declare declares tests, which run `ct` by the function that it gets */
export function describeChartTesting(
  command: 'lint' | 'install',
  declare: (run: ChartTesting['run']) => void,
): void {
  describe.skipIf(![GO, HELM, PYTHON].every(has))('chart-testing', () => {
    let chartTesting: ChartTesting
    beforeAll(async () => {
      chartTesting = await ChartTesting.start(command)
    }, BUILD_MS)
    afterAll(() => chartTesting?.stop())
    declare((...args) => chartTesting.run(...args))
  })
}
