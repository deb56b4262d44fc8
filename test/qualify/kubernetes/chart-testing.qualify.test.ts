import { expect, it } from 'vitest'
import { describeChartTesting, RUN_MS } from '../../kubernetes/chart-testing.ts'
import { CI_FILES } from '../../support/chart.ts'

describeChartTesting('install', run => {
  it(
    'ct install installs, tests and uninstalls each example of values',
    async () => {
      const { ok, stdout, stderr } = await run('install', '--charts', 'helm')
      expect(ok, stdout + stderr).toBe(true)
      for (const file of CI_FILES) expect(stdout).toContain(`helm/ci/${file}`)
      expect(stdout.match(/Phase: +Succeeded/g), stdout).toHaveLength(CI_FILES.length)
    },
    RUN_MS,
  )
})
