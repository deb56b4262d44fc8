import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PANELS, type Panel } from '../../observability/dashboards.ts'
import { rules } from '../../observability/rule-files.ts'
import { sendPipelined } from '../../support/pipelined-load.ts'
import { PrometheusServer } from '../../support/prometheus-server.ts'
import { get } from '../../support/raw-client.ts'
import { jsonAnswer } from '../../support/recording-upstream.ts'
import { has, PROMETHEUS } from '../../support/tools.ts'
import { startWorld } from '../../support/world.ts'
import { STEP_SECONDS, ThirtyDays } from './thirty-days.ts'

const GATEWAYS = 3
const SECONDS_PER_PANEL = 2
/** Prometheus evaluates them every 30 s. */
const SECONDS_PER_EVALUATION = 3
/** Of 24 on a screen that is 1920 pixels wide. */
const PIXELS_PER_COLUMN = 80
const ROUTES = Object.fromEntries(
  Array.from({ length: 5 }, (_, index) => [
    `route-${index}`,
    { path: `/api/v${index + 2}/workspaces/{workspaceId}` },
  ]),
)
const STATUSES = [200, 200, 201, 204, 304, 400, 404, 409, 429, 500, 502, 503]

/** What gateway and console expose after requests on all routes with many outcomes. */
async function exposeMuch() {
  const world = await startWorld({
    POSTERN_ROUTES: JSON.stringify(ROUTES),
    POSTERN_LIMITS_POLICIES: JSON.stringify([
      { name: 'burst', per: 'key', route: 'auth', requests: 5, windowSeconds: 60 },
    ]),
    POSTERN_LOG_LEVEL: 'warn',
  })
  try {
    const { secret } = await world.issue()
    let answered = 0
    world.upstream.answer = () => jsonAnswer(STATUSES[answered++ % STATUSES.length] ?? 200, '{"id":"x"}')
    const methods = ['GET', 'POST', 'DELETE']
    await sendPipelined(world.gateway.urls.gateway, 3000, index => {
      const path =
        index % 9 === 0 ? '/api/v1/auth' : `/api/v${1 + (index % 6)}/workspaces/ws_${index % 7 === 0 ? 2 : 1}`
      return get(path, index % 11 === 0 ? `${secret}x` : secret).replace('GET', methods[index % 3] ?? 'GET')
    })
    const scrape = async (url: string) => (await fetch(`${url}/metrics`)).text()
    return { gateway: await scrape(world.gateway.urls.ops), console: await scrape(world.console.urls.ops) }
  } finally {
    await world.stop()
  }
}

/** A panel's query as Grafana sends it for thirty days. */
function asGrafanaSends(expr: string, { width }: Panel) {
  const stepSeconds = Math.ceil((30 * 86_400) / (width * PIXELS_PER_COLUMN) / STEP_SECONDS) * STEP_SECONDS
  const query = expr
    .replaceAll('$__rate_interval', `${stepSeconds + STEP_SECONDS}s`)
    .replaceAll('$__range', '30d')
    .replace(/"\$(cluster|namespace|job|pod|route)"/g, '".*"')
  return { query, stepSeconds }
}

describe.skipIf(!has(PROMETHEUS))('thirty days of three gateways and a console, scraped every 30 s', () => {
  let prometheus: PrometheusServer
  let days: ThirtyDays
  beforeAll(async () => {
    const exposed = await exposeMuch()
    const target = (plane: string, pod: number) => ({
      namespace: 'files',
      job: `postern-${plane}`,
      pod: `postern-${plane}-${pod}`,
      instance: `10.0.0.${pod}:9090`,
    })
    days = new ThirtyDays([
      ...Array.from({ length: GATEWAYS }, (_, pod) => ({
        text: exposed.gateway,
        target: target('gateway', pod),
      })),
      { text: exposed.console, target: target('console', 0) },
    ])
    prometheus = await PrometheusServer.start([], [], ['--storage.tsdb.retention.time=60d'], data =>
      days.writeTo(data),
    )
  })
  afterAll(() => prometheus?.stop())

  test('the storage holds every sample of them', async () => {
    const [counted, summed] = await Promise.all(
      ['count_over_time', 'sum_over_time'].map(of =>
        prometheus.range(`${of}(postern_build_info[30d])`, days.toSeconds, days.toSeconds),
      ),
    )
    const samples = (30 * 86_400) / STEP_SECONDS
    // A window contains one end of the two.
    for (const found of [counted, summed]) {
      expect(found?.map(({ points }) => samples - (points[0]?.[1] ?? 0))).toEqual(
        Array.from({ length: GATEWAYS + 1 }, () => expect.toBeOneOf([0, 1])),
      )
    }
    const [grown] = await prometheus.range(
      'sum(increase(postern_http_requests_total[1d]))',
      days.toSeconds,
      days.toSeconds,
    )
    expect(grown?.points[0]?.[1]).toBeGreaterThan(samples / 30)
  })

  test(`each panel takes less than ${SECONDS_PER_PANEL} s of processor time`, async () => {
    const costs: [seconds: number, name: string][] = []
    let answered = 0
    for (const { dashboard, panel } of PANELS) {
      const before = await prometheus.cpuSeconds()
      for (const { expr } of panel.queries) {
        const { query, stepSeconds } = asGrafanaSends(expr, panel)
        const found = await prometheus.range(query, days.fromSeconds, days.toSeconds, stepSeconds)
        if (found.length > 0) answered++
      }
      costs.push([(await prometheus.cpuSeconds()) - before, `${dashboard.title} › ${panel.title}`])
    }
    costs.sort(([one], [other]) => other - one)
    const shown = costs.slice(0, 5).map(([seconds, name]) => `${seconds.toFixed(2)} s  ${name}`)
    process.stdout.write(`\n${days.series.length} series; the slowest panels:\n${shown.join('\n')}\n`)
    // Only those about Kubernetes, firing alerts and parts that were not configured have no data here.
    expect(answered).toBeGreaterThan(PANELS.length * 0.8)
    expect(costs.filter(([seconds]) => seconds > SECONDS_PER_PANEL)).toEqual([])
  }, 300_000)

  test(`all rules together take less than ${SECONDS_PER_EVALUATION} s of processor time`, async () => {
    const before = await prometheus.cpuSeconds()
    let values = 0
    for (const { expr } of rules) {
      const found = await prometheus.range(expr, days.toSeconds, days.toSeconds)
      values += found.length
    }
    const seconds = (await prometheus.cpuSeconds()) - before
    process.stdout.write(`\n${rules.length} rules evaluated once: ${seconds.toFixed(2)} s\n`)
    expect(values).toBeGreaterThan(0)
    expect(seconds).toBeLessThan(SECONDS_PER_EVALUATION)
  })
})
