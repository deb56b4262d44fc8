import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { CI_FILES } from '../support/chart.ts'
import { describeChartTesting, RUN_MS } from './chart-testing.ts'
import { programOf } from './control-plane-programs.ts'

describeChartTesting('lint', run => {
  it(
    'ct lint finds no mistake in the chart, its values and its maintainers',
    async () => {
      const schema = ['--chart-yaml-schema', join(dirname(programOf('ct')), 'chart_schema.yaml')]
      const { ok, stdout, stderr } = await run('lint', '--charts', 'helm', ...schema)
      expect(ok, stdout + stderr).toBe(true)
      for (const file of CI_FILES) expect(stdout).toContain(`helm/ci/${file}`)
    },
    RUN_MS,
  )
})
