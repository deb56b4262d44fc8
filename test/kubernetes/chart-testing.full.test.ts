import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CHART, CI_FILES } from '../support/chart.ts'
import { pythonEnvironment } from '../support/python-environment.ts'
import { GO, HELM, has, PYTHON } from '../support/tools.ts'
import { ControlPlane } from './control-plane.ts'
import { buildControlPlane, programOf } from './control-plane-programs.ts'
import { definitionFiles } from './custom-resources.ts'

const CONFIGURATION = fileURLToPath(new URL('../../.ct/', import.meta.url))
const BUILD_MS = 30 * 60_000
const INSTALL_MS = 10 * 60_000

let cluster: ControlPlane
let checkout: string

/** `ct` as its documentation runs it: in a Git checkout, with the configuration of `.ct/`. */
function chartTesting(...args: string[]) {
  const folders = [join(checkout, 'bin'), dirname(programOf('kubectl')), process.env['PATH']]
  const environment = { PATH: folders.join(':') }
  return cluster.run(programOf('ct'), args, { environment, cwd: checkout, deadlineMs: INSTALL_MS })
}

/** Puts a Python program on the path of `ct`. */
function addPython(name: string, pinned: string, module: string): void {
  const python = join(pythonEnvironment(pinned), 'python3')
  mkdirSync(join(checkout, 'bin'), { recursive: true })
  writeFileSync(join(checkout, 'bin', name), `#!/bin/sh\nexec ${python} -m ${module} "$@"\n`, { mode: 0o755 })
}

async function prepare(): Promise<void> {
  buildControlPlane()
  checkout = mkdtempSync(join(tmpdir(), 'postern-chart-testing-'))
  cpSync(CHART, join(checkout, 'helm'), { recursive: true })
  cpSync(CONFIGURATION, join(checkout, '.ct'), { recursive: true })
  execFileSync('git', ['init', '-q'], { cwd: checkout })
  addPython('yamllint', 'yamllint==1.37.1', 'yamllint')
  addPython('yamale', 'yamale==6.0.0', 'yamale.command_line')
  cluster = await ControlPlane.start()
  for (const file of definitionFiles()) await cluster.kubectl('create', '-f', file)
  await cluster.apply({
    apiVersion: 'scheduling.k8s.io/v1',
    kind: 'PriorityClass',
    metadata: { name: 'edge' },
    value: 1000,
  })
}

describe.skipIf(![GO, HELM, PYTHON].every(has))('chart-testing on a real Kubernetes API', () => {
  beforeAll(prepare, BUILD_MS)
  afterAll(async () => {
    await cluster?.stop()
    if (checkout !== undefined) rmSync(checkout, { recursive: true, force: true })
  }, 30_000)

  it(
    'ct lint finds no mistake in the chart, its values and its maintainers',
    async () => {
      const schema = ['--chart-yaml-schema', join(dirname(programOf('ct')), 'chart_schema.yaml')]
      const { ok, stdout, stderr } = await chartTesting('lint', '--charts', 'helm', ...schema)
      expect(ok, stdout + stderr).toBe(true)
      for (const file of CI_FILES) expect(stdout).toContain(`helm/ci/${file}`)
    },
    INSTALL_MS,
  )

  it(
    'ct install installs, tests and uninstalls each example of values',
    async () => {
      const { ok, stdout, stderr } = await chartTesting('install', '--charts', 'helm')
      expect(ok, stdout + stderr).toBe(true)
      for (const file of CI_FILES) expect(stdout).toContain(`helm/ci/${file}`)
      expect(stdout.match(/Phase: +Succeeded/g), stdout).toHaveLength(CI_FILES.length)
    },
    INSTALL_MS,
  )
})
