import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { MINIMAL, NAME, render } from '../support/chart.ts'
import { at } from '../support/manifests.ts'
import { HELM, has, PROMTOOL } from '../support/tools.ts'

const RELEASES = ['blue', 'green'] as const
/** Of each release: both planes, an autoscaler, a backup, and a label that tells whose rule fired. */
const valuesOf = (release: string) => ({
  ...MINIMAL,
  console: { enabled: true, backup: { enabled: true } },
  gateway: { autoscaling: { enabled: true } },
  monitoring: { trustApis: true, prometheusRule: { enabled: true, alertLabels: { release } } },
})
const STEPS = 60

/** Input series for promtool: a value every 30 s for half an hour. */
function series(namespace: string, name: string, labels: Record<string, string>, values: string) {
  const pairs = Object.entries({ namespace, ...labels }).map(([label, value]) => `${label}="${value}"`)
  return { series: `${name}{${pairs.join(',')}}`, values }
}

/** Two processes, an autoscaler and a backup. A broken release lost its console, its Redis and its upstream, and has no new backup. */
function seriesOf(namespace: string, broken: boolean) {
  const gateway = { job: `${NAME}-gateway`, pod: 'g' }
  const console_ = { job: `${NAME}-console`, pod: 'c' }
  const info = { hash: 'aa' }
  const always = (value: number) => `${value}x${STEPS}`
  const autoscaler = { job: 'kube-state-metrics', horizontalpodautoscaler: `${NAME}-gateway` }
  const job = { job: 'kube-state-metrics', job_name: `${NAME}-backup-29000000` }
  const replicas = (what: string, value: number) =>
    series(namespace, `kube_horizontalpodautoscaler_${what}`, autoscaler, always(value))
  return [
    series(namespace, 'postern_config_info', { ...gateway, ...info, plane: 'gateway' }, always(1)),
    series(
      namespace,
      'postern_config_info',
      { ...console_, ...info, plane: 'console' },
      broken ? '1x5 stale' : always(1),
    ),
    series(namespace, 'postern_redis_up', gateway, always(broken ? 0 : 1)),
    series(
      namespace,
      'postern_upstream_errors_total',
      { ...gateway, upstream: 'u', kind: 'refused' },
      broken ? `0+30x${STEPS}` : always(0),
    ),
    series(
      namespace,
      'postern_upstream_requests_total',
      { ...gateway, upstream: 'u', code: '200' },
      `0+10x${STEPS}`,
    ),
    replicas('status_current_replicas', broken ? 10 : 2),
    replicas('spec_max_replicas', 10),
    replicas('spec_min_replicas', 2),
    series(
      namespace,
      'kube_cronjob_status_last_successful_time',
      { job: 'kube-state-metrics', cronjob: `${NAME}-backup` },
      // The first time is 0.
      always(broken ? -100_000 : 0),
    ),
    series(namespace, 'kube_job_status_start_time', job, always(0)),
    series(namespace, 'kube_job_failed', { ...job, condition: 'true' }, broken ? always(1) : 'stale'),
  ]
}

describe.skipIf(!has(HELM) || !has(PROMTOOL))(
  'two releases of one name in two namespaces of one Prometheus',
  () => {
    let directory = ''
    beforeAll(() => {
      directory = mkdtempSync(join(tmpdir(), 'postern-two-releases-'))
      for (const release of RELEASES) {
        const rule = render(valuesOf(release), { args: ['--namespace', release] }).get('PrometheusRule')
        writeFileSync(join(directory, `${release}.yaml`), stringify(at(rule, 'spec')))
      }
    })
    afterAll(() => rmSync(directory, { recursive: true, force: true }))

    /** @returns what promtool says about the firing alerts after 25 minutes */
    const promtool = (broken: string, firing: readonly string[]) => {
      const test = {
        rule_files: RELEASES.map(release => `${release}.yaml`),
        evaluation_interval: '30s',
        tests: [
          {
            interval: '30s',
            input_series: RELEASES.flatMap(release => seriesOf(release, release === broken)),
            promql_expr_test: [
              {
                expr: 'count by (alertname, namespace, release) (ALERTS{alertstate="firing"})',
                eval_time: '25m',
                exp_samples: firing.map(alertname => ({
                  labels: `{alertname="${alertname}",namespace="${broken}",release="${broken}"}`,
                  value: 1,
                })),
              },
            ],
          },
        ],
      }
      writeFileSync(join(directory, 'test.yaml'), stringify(test))
      return spawnSync('promtool', ['test', 'rules', 'test.yaml'], { cwd: directory, encoding: 'utf8' })
    }

    it.each(RELEASES)('raise only their own alerts: %s is broken', broken => {
      const { stdout, stderr } = promtool(broken, [
        'PosternAutoscalerAtMaximum',
        'PosternBackupFailed',
        'PosternBackupMissing',
        'PosternConsoleAbsent',
        'PosternKeyStoreUnavailable',
        'PosternUpstreamDown',
      ])
      expect(stdout + stderr).toContain('SUCCESS')
    })

    it('are quiet while both work', () => {
      const { stdout, stderr } = promtool('neither', [])
      expect(stdout + stderr).toContain('SUCCESS')
    })
  },
)
