import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ChartTesting } from '../../kubernetes/chart-testing.ts'
import { CI_FILES } from '../../support/chart.ts'
import { GO, HELM, has, PYTHON } from '../../support/tools.ts'

const BUILD_MS = 30 * 60_000
const INSTALL_MS = 10 * 60_000

describe.skipIf(![GO, HELM, PYTHON].every(has))('chart-testing on a real Kubernetes API', () => {
  let chartTesting: ChartTesting
  beforeAll(async () => {
    chartTesting = await ChartTesting.start()
  }, BUILD_MS)
  afterAll(() => chartTesting?.stop(), 30_000)

  it(
    'ct install installs, tests and uninstalls each example of values',
    async () => {
      const { ok, stdout, stderr } = await chartTesting.run('install', '--charts', 'helm')
      expect(ok, stdout + stderr).toBe(true)
      for (const file of CI_FILES) expect(stdout).toContain(`helm/ci/${file}`)
      expect(stdout.match(/Phase: +Succeeded/g), stdout).toHaveLength(CI_FILES.length)
    },
    INSTALL_MS,
  )
})
