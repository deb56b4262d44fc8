import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CI_FILES } from '../support/chart.ts'
import { GO, HELM, has, PYTHON } from '../support/tools.ts'
import { ChartTesting } from './chart-testing.ts'
import { programOf } from './control-plane-programs.ts'

const BUILD_MS = 30 * 60_000
const LINT_MS = 10 * 60_000

describe.skipIf(![GO, HELM, PYTHON].every(has))('chart-testing on a real Kubernetes API', () => {
  let chartTesting: ChartTesting
  beforeAll(async () => {
    chartTesting = await ChartTesting.start()
  }, BUILD_MS)
  afterAll(() => chartTesting?.stop(), 30_000)

  it(
    'ct lint finds no mistake in the chart, its values and its maintainers',
    async () => {
      const schema = ['--chart-yaml-schema', join(dirname(programOf('ct')), 'chart_schema.yaml')]
      const { ok, stdout, stderr } = await chartTesting.run('lint', '--charts', 'helm', ...schema)
      expect(ok, stdout + stderr).toBe(true)
      for (const file of CI_FILES) expect(stdout).toContain(`helm/ci/${file}`)
    },
    LINT_MS,
  )
})
