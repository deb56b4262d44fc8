import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { CHART, CI_FILES } from '../support/chart.ts'
import { listAt, textAt } from '../support/manifests.ts'
import { pythonEnvironment } from '../support/python-environment.ts'
import { has, PYTHON } from '../support/tools.ts'

const RULES = join(CHART, '../.ct/lintconf.yaml')

describe('chart-testing (ct lint, ct install)', () => {
  it('finds each example of values, whose names must end in -values.yaml', () => {
    expect(CI_FILES.filter(file => !file.endsWith('-values.yaml'))).toEqual([])
  })

  it('finds who maintains the chart', () => {
    const chart: unknown = parse(readFileSync(join(CHART, 'Chart.yaml'), 'utf8'))
    expect(listAt(chart, 'maintainers').map(maintainer => textAt(maintainer, 'name'))).not.toEqual([])
  })

  describe.skipIf(!has(PYTHON))('finds no mistake of form in', () => {
    beforeAll(() => void pythonEnvironment('yamllint'), 300_000)

    it.each(['Chart.yaml', 'values.yaml', ...CI_FILES.map(file => `ci/${file}`)])('%s', file => {
      const python = join(pythonEnvironment('yamllint'), 'python3')
      const { stdout, status } = spawnSync(
        python,
        ['-m', 'yamllint', '-f', 'parsable', '-c', RULES, join(CHART, file)],
        { encoding: 'utf8' },
      )
      expect([stdout, status]).toEqual(['', 0])
    })
  })
})
