import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { has, PROMETHEUS } from '../../support/tools.ts'
import { FIRING, PANELS } from '../dashboards.ts'
import { alerts, rules } from '../rule-files.ts'
import { shortened } from './shorten.ts'
import { runWatched, type WatchedRun } from './watched-run.ts'

/** Panels that no fault of this run changes: a value of 0 is enough. */
const MAY_STAY_ZERO = new Set([
  'Failed audit writes',
  'Audit entries rejected',
  'Log lines dropped',
  // The database works throughout: `test/console/database-unavailable.full.test.ts` counts its errors.
  'Errors of the database',
  // No listener reaches its limit of connections.
  'Connections closed at a limit',
  // No gateway sends an entry that is not valid, and the database is never full.
  'Usage reports',
  // Gateways reach the console without TLS in this run.
  'Requests from gateways',
  // The console is never down in this run.
  'Requests missing in usage',
  'Usage report delay',
  // No collector is configured.
  'Usage exports',
  // No token is rejected in this run; that of Redis, which is stopped, does not stay at zero.
  'Failing connections and rejected tokens',
  // There is no identity provider in this run.
  'Sign-ins',
])

/** On a busy machine its phases wait for what they show. */
const RUN_LIMIT_MS = 600_000

/** Alerts that these faults must raise. */
const EXPECTED = [
  'PosternErrorBudgetBurnFast',
  'PosternUpstreamDown',
  'PosternUpstreamCircuitOpen',
  'PosternUpstreamQueueing',
  'PosternRevocationStreamDown',
  'PosternKeyStoreUnavailable',
  'PosternRateLimiterLocalMode',
  'PosternDrainDeadlineHit',
  'PosternTargetDown',
  // The test's authority is valid for two days.
  'PosternCertificateExpiresSoon',
]
/** Alerts that they must not raise. */
const UNEXPECTED = [
  'PosternVersionSkew',
  'PosternAuditWriteFailing',
  'PosternAuditTampered',
  'PosternDatabaseFailing',
  'PosternLeakReportsFailing',
  'PosternHeapNearLimit',
  'PosternUsageReportsLate',
  'PosternUsageLost',
]

describe.skipIf(!has(PROMETHEUS))('a real Prometheus watches a minute of load and faults', () => {
  let run: WatchedRun
  let startedAtMs: number
  beforeAll(async () => {
    startedAtMs = performance.now()
    run = await runWatched()
  }, RUN_LIMIT_MS)
  afterAll(() => run?.stop())

  test('every panel of every dashboard has values, those of Kubernetes from a double', async () => {
    const empty: string[] = []
    const flat: string[] = []
    let series = 0
    for (const { dashboard, panel } of PANELS) {
      const values = await run.valuesOf(panel)
      values.forEach((found, index) => {
        const name = `${dashboard.title} › ${panel.title} › ${panel.queries[index]?.legend}`
        const finite = found.flatMap(({ points }) => points.filter(([, value]) => Number.isFinite(value)))
        series += found.length
        if (finite.length === 0) empty.push(name)
        else if (finite.every(([, value]) => value === 0)) flat.push(name)
      })
    }
    const queries = PANELS.reduce((sum, { panel }) => sum + panel.queries.length, 0)
    const seconds = ((performance.now() - startedAtMs) / 1000).toFixed(0)
    process.stdout.write(
      `\n${PANELS.length} panels, ${queries} queries, ${series} series over ${run.answers} answered requests; ${seconds} s\n`,
    )
    expect(empty, 'panels without a series').toEqual([])
    expect(
      flat.filter(name => !MAY_STAY_ZERO.has(name.split(' › ')[1] ?? '')),
      'panels that stayed at zero: make it happen in watched-run.ts, or add the panel to MAY_STAY_ZERO',
    ).toEqual([])
  })

  test('every rule can be evaluated, and every recording has a value', async () => {
    const states = await run.prometheus.rules()
    expect(states.length).toBe(rules.length)
    expect(states.filter(({ health, lastError }) => health !== 'ok' || lastError)).toEqual([])
    for (const { record, expr } of rules) {
      const found = await run.prometheus.range(record ?? shortened(expr), run.fromSeconds, run.toSeconds)
      const finite = found.flatMap(({ points }) => points.filter(([, value]) => Number.isFinite(value)))
      if (record !== undefined) expect([record, finite.length > 0]).toEqual([record, true])
    }
  })

  test('the faults raise the expected alerts, and none of the unexpected ones', async () => {
    const fired = await run.prometheus.range(shortened(FIRING), run.fromSeconds, run.toSeconds)
    const names = [...new Set(fired.map(({ labels }) => labels['alertname']))]
    process.stdout.write(`\nfired: ${names.sort().join(', ')}\n`)
    expect(alerts.map(({ alert }) => alert)).toEqual(expect.arrayContaining(names))
    expect(names).toEqual(expect.arrayContaining(EXPECTED))
    // A label that a rule has dropped leaves a gap in the sentence.
    expect(run.descriptions.filter(text => /<error|<no value>|NaN| {2}| of in | in [.,]/.test(text))).toEqual(
      [],
    )
    expect(names.filter(name => UNEXPECTED.includes(name ?? ''))).toEqual([])
  })
})
