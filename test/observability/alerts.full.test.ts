import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { has, PROMTOOL } from '../support/tools.ts'
import { DASHBOARDS } from './dashboards.ts'
import { testRules } from './promtool.ts'
import { ALERT_TEST_FILES, alerts, RULE_FILES, rules } from './rule-files.ts'

interface TestFile {
  readonly tests: readonly {
    readonly promql_expr_test: readonly { readonly expr: string; readonly exp_samples: readonly unknown[] }[]
  }[]
}

const names = alerts.map(({ alert }) => alert)
const expectations = ALERT_TEST_FILES.flatMap(file =>
  (parse(readFileSync(file, 'utf8')) as TestFile).tests.flatMap(({ promql_expr_test }) => promql_expr_test),
)

describe.skipIf(!has(PROMTOOL))('according to promtool', () => {
  test('the rules are valid', () => {
    const check = spawnSync('promtool', ['check', 'rules', ...RULE_FILES], { encoding: 'utf8' })
    expect(check.stdout + check.stderr).not.toMatch(/error|FAILED/)
    expect(check.status).toBe(0)
  })

  test.each(ALERT_TEST_FILES.map(file => [file.slice(file.lastIndexOf('/') + 1), file] as const))(
    'alerts fire when they should and are quiet when they should: %s',
    async (_, file) => {
      expect(await testRules(file)).toEqual({ ok: true, output: expect.stringContaining('SUCCESS') })
    },
    600_000,
  )
})

test('each alert has a name of its own, by which the chart overrides and disables it', () => {
  expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([])
})

test('every selector can be limited to one release', () => {
  const selectors = rules.flatMap(({ expr }) => expr.match(/[\w:]+(?:\{[^}]*\})?(?=[\s)[]|$)/g) ?? [])
  const series = selectors.filter(selector => /^(job:|postern_|nodejs_|up\b|kube_)/.test(selector))
  expect(series.length).toBeGreaterThan(rules.length)
  const release =
    /^[\w:]+\{(job=~"\.\+"|horizontalpodautoscaler=~"\.\+-gateway"|cronjob=~"\.\*postern\.\*-backup"|job_name=~"\.\*postern\.\*-backup-\[0-9\]\+")[,}]/
  expect(series.filter(selector => !release.test(selector))).toEqual([])
})

test('no rule reads more than an hour of raw series, apart from whether they exist', () => {
  const windows = rules.flatMap(({ expr }) => [...expr.matchAll(/([\w:]+)(?:\{[^}]*\})?\[(\d+)([mhd])\]/g)])
  const long = windows.filter(([, , count, unit]) => unit === 'd' || (unit === 'h' && Number(count) > 1))
  expect(long.length).toBeGreaterThan(0)
  const raw = long.map(([, name = '']) => name).filter(name => !name.startsWith('job:'))
  expect(new Set(raw)).toEqual(new Set(['postern_config_info', 'postern_build_info']))
})

test.each(names)('%s has a test case in which it fires and one in which it does not', name => {
  const own = expectations.filter(({ expr }) => expr.includes(`alertname="${name}"`))
  expect(own.some(({ exp_samples }) => exp_samples.length > 0)).toBe(true)
  expect(own.some(({ exp_samples }) => exp_samples.length === 0)).toBe(true)
})

describe('an alert says what is wrong', () => {
  test.each(alerts.map(alert => [`${alert.alert} (${alert.labels['severity']})`, alert] as const))(
    '%s',
    (_, { labels, annotations }) => {
      expect(['critical', 'warning', 'info']).toContain(labels['severity'])
      expect(Object.keys(annotations).sort()).toEqual([
        'dashboard_url',
        'description',
        'runbook_url',
        'summary',
      ])
      // One sentence without figures, because notifications are grouped by it.
      expect(annotations['summary']).toMatch(/^[A-Z][^{}]*[^.]\.$/)
      expect(annotations['summary']?.match(/\. /g)).toBeNull()
      expect(annotations['description']).toMatch(/\{\{ \$(value|labels)/)
      const dashboard = annotations['dashboard_url']?.replace('https://grafana.example/d/', '')
      expect(DASHBOARDS.map(({ json }) => json.uid)).toContain(dashboard)
    },
  )
})

test('names of recording rules have level, metric and operation', () => {
  const recorded = rules.flatMap(({ record }) => (record === undefined ? [] : [record]))
  expect(recorded.filter(name => !/^job:postern_[a-z_]+:[a-z0-9_]+$/.test(name))).toEqual([])
})
