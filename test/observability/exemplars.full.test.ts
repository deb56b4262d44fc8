import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { OtlpReceiver } from '../support/otlp-receiver.ts'
import { type Listening, startPostern } from '../support/postern-process.ts'
import { PrometheusServer } from '../support/prometheus-server.ts'
import { exchange, get } from '../support/raw-client.ts'
import { has, PROMETHEUS } from '../support/tools.ts'
import { until } from '../support/until.ts'
import { startWorld, type World } from '../support/world.ts'

const RECORDED = '0af7651916cd43dd8448eb211c80319c'
const UNRECORDED = '1bf7651916cd43dd8448eb211c80319c'
const WORKSPACE = '/api/v1/workspaces/ws_1'

let world: World
let collector: OtlpReceiver
let gateway: Listening
let secret = ''

beforeAll(async () => {
  collector = await OtlpReceiver.start()
  world = await startWorld()
  secret = (await world.issue()).secret
  gateway = await startPostern('gateway', {
    ...world.env,
    POSTERN_TRACING_ENDPOINT: collector.url,
    POSTERN_METRICS_EXEMPLARS: 'true',
    POSTERN_TRACING_TRUST_PARENT: 'always',
  })
  for (const trace of [`${RECORDED}-b7ad6b7169203331-01`, `${UNRECORDED}-b7ad6b7169203331-00`]) {
    const { status } = await exchange(
      gateway.urls.gateway,
      get(WORKSPACE, secret, `traceparent: 00-${trace}`),
    )
    expect(status).toBe(200)
  }
})
afterAll(async () => {
  await gateway.process.stop()
  collector.stop()
  await world.stop()
})

const scrape = async ({ urls }: Listening) => {
  const response = await fetch(`${urls.ops}/metrics`)
  return { type: response.headers.get('content-type'), text: await response.text() }
}
/** Names and labels of the exposed series, without values and exemplars. What fails at Redis has a series for as long as it fails. */
const seriesOf = (text: string) =>
  new Set(
    text
      .split('\n')
      .filter(line => line.startsWith('postern_') && !line.startsWith('postern_redis_failing{'))
      .map(line => (/^\w+(?:\{[^}]*\})?/.exec(line)?.[0] ?? '').replace(/hash="\w+"/, '')),
  )

describe('with exemplars', () => {
  test('a duration has the trace id of a request, if its trace was recorded', async () => {
    const { type, text } = await scrape(gateway)
    expect(type).toBe('application/openmetrics-text; version=1.0.0; charset=utf-8')
    expect(text).toMatch(/\n# EOF\n$/)
    const exemplars = text.split('\n').filter(line => line.includes(' # {'))
    expect(exemplars).not.toEqual([])
    for (const line of exemplars) {
      expect(line).toMatch(
        /^postern_http_request_duration_seconds_bucket\{[^}]*\} \d+ # \{trace_id="[0-9a-f]{32}"\} [\d.e-]+ [\d.]+$/,
      )
    }
    expect(text).toContain(`trace_id="${RECORDED}"`)
    expect(text).not.toContain(UNRECORDED)
    expect(text).not.toMatch(/wsk_|key_[0-9A-Z]{26}|ws_1/)
  })

  test.skipIf(!has(PROMETHEUS))(
    'a real Prometheus takes them, and everything else as it does without',
    async () => {
      const target = { url: gateway.urls.ops, labels: { job: 'postern-gateway' } }
      const prometheus = await PrometheusServer.start([target], [], ['--enable-feature=exemplar-storage'])
      try {
        const [exemplar] = await until('it has an exemplar', async () => {
          const found = await prometheus.exemplars('postern_http_request_duration_seconds_bucket')
          return found.length > 0 ? found : null
        })
        expect(exemplar?.labels).toEqual({ trace_id: RECORDED })
        // Prometheus returns the exemplars of a scrape before its samples.
        const [series] = await until('it has the samples, too', async () => {
          const now = Date.now() / 1000
          const expr = 'sum(postern_http_requests_total{route="workspace",code="200"})'
          const found = await prometheus.range(expr, now - 5, now)
          return found.length > 0 ? found : null
        })
        expect(series?.points.at(-1)?.[1]).toBe(2)
      } finally {
        await prometheus.stop()
      }
    },
  )

  test('names and labels are the same as without', async () => {
    const plain = await startPostern('gateway', { ...world.env, POSTERN_TRACING_ENDPOINT: collector.url })
    await exchange(plain.urls.gateway, get(WORKSPACE, secret))
    const [one, other] = [await scrape(plain), await scrape(gateway)]
    expect(one.type).toBe('text/plain; version=0.0.4; charset=utf-8')
    expect(one.text).not.toContain('trace_id')
    expect([...seriesOf(other.text)].sort()).toEqual([...seriesOf(one.text)].sort())
    await plain.process.stop()
  })
})
