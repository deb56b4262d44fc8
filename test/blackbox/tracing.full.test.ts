import { afterAll, beforeAll, expect, test } from 'vitest'
import { OtlpReceiver } from '../support/otlp-receiver.ts'
import { startPostern } from '../support/postern-process.ts'
import { exchange, get } from '../support/raw-client.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const TRACE_ID = '0af7651916cd43dd8448eb211c80319c'
const CLIENT_SPAN_ID = 'b7ad6b7169203331'
const TRACEPARENT = `00-${TRACE_ID}-${CLIENT_SPAN_ID}-01`
const WORKSPACE = '/api/v1/workspaces/ws_1'

let world: World
let key: IssuedKey
let collector: OtlpReceiver

beforeAll(async () => {
  collector = await OtlpReceiver.start()
  world = await startWorld()
  key = await world.issue()
})
afterAll(async () => {
  collector.stop()
  await world.stop()
})

test("with a collector configured, a request is a span in its client's trace, with child spans for lookup and upstream", async () => {
  const gateway = await startPostern('gateway', { ...world.env, POSTERN_TRACING_ENDPOINT: collector.url })
  world.upstream.reset()
  await exchange(gateway.urls.gateway, get(WORKSPACE, key.secret, `traceparent: ${TRACEPARENT}`))
  await exchange(gateway.urls.gateway, get('/api/v1/workspaces/ws_2', key.secret))
  const line = await gateway.process.logged(entry => entry['traceId'] === TRACE_ID)
  // Pending spans are sent on exit.
  await gateway.process.stop('SIGTERM')

  const ours = collector.spans.filter(span => span.traceId === TRACE_ID)
  const server = ours.find(span => span.name === 'GET workspace')
  const lookUp = ours.find(span => span.name === 'key lookup')
  const upstream = ours.find(span => span.name === 'upstream')
  expect(ours).toHaveLength(3)
  expect(server).toMatchObject({
    parentSpanId: CLIENT_SPAN_ID,
    attributes: { 'http.route': 'workspace', 'http.response.status_code': 200 },
  })
  expect(lookUp).toMatchObject({
    parentSpanId: server?.spanId,
    attributes: { 'postern.key.tier': expect.stringMatching(/^(redis|key_service)$/) },
  })
  expect(upstream).toMatchObject({
    parentSpanId: server?.spanId,
    attributes: { 'http.response.status_code': 200 },
  })
  expect(world.upstream.requests[0]).toContain(`traceparent: 00-${TRACE_ID}-${upstream?.spanId}-01\r\n`)
  expect(line).toMatchObject({ traceId: TRACE_ID, spanId: server?.spanId })

  const refused = collector.spans.find(span => span.attributes['postern.reason'] === 'other_workspace')
  expect(refused).toMatchObject({ name: 'GET workspace', attributes: { 'http.response.status_code': 404 } })
  expect(refused?.traceId).not.toBe(TRACE_ID)
  expect(collector.text).not.toContain(key.secret)
})

test('an anonymous client cannot override tracing.sampleRatio for its requests', async () => {
  const gateway = await startPostern('gateway', {
    ...world.env,
    POSTERN_TRACING_ENDPOINT: collector.url,
    POSTERN_TRACING_SAMPLE_RATIO: '0',
  })
  world.upstream.reset()
  const before = collector.spans.length
  for (let requests = 0; requests < 20; requests++) {
    await exchange(gateway.urls.gateway, get(WORKSPACE, key.secret, `traceparent: ${TRACEPARENT}`))
  }
  // Pending spans are sent on exit.
  await gateway.process.stop('SIGTERM')
  expect(collector.spans.length).toBe(before)
  // The trace continues, and the upstream sees the gateway's sampling decision.
  expect(world.upstream.requests[0]).toMatch(new RegExp(`traceparent: 00-${TRACE_ID}-[0-9a-f]{16}-00\\r\\n`))
})

test('with a trusted proxy in front, the sampled flag that it sends decides', async () => {
  const gateway = await startPostern('gateway', {
    ...world.env,
    POSTERN_TRACING_ENDPOINT: collector.url,
    POSTERN_TRACING_SAMPLE_RATIO: '0',
    POSTERN_GATEWAY_TRUSTED_PROXIES: '127.0.0.1',
  })
  const before = collector.spans.length
  await exchange(gateway.urls.gateway, get(WORKSPACE, key.secret, `traceparent: ${TRACEPARENT}`))
  await gateway.process.stop('SIGTERM')
  expect(collector.spans.length).toBe(before + 3)
})

test('a collector that is down does not disturb requests', async () => {
  const gateway = await startPostern('gateway', {
    ...world.env,
    POSTERN_TRACING_ENDPOINT: 'http://127.0.0.1:1',
  })
  expect((await exchange(gateway.urls.gateway, get(WORKSPACE, key.secret))).status).toBe(200)
  const exit = await gateway.process.stop('SIGTERM')
  expect([exit.code, exit.stderr]).toEqual([0, ''])
})

test("without a collector, the client's trace context is forwarded unchanged and logged", async () => {
  world.upstream.reset()
  await exchange(world.gateway.urls.gateway, get(WORKSPACE, key.secret, `traceparent: ${TRACEPARENT}`))
  expect(world.upstream.requests[0]).toContain(`traceparent: ${TRACEPARENT}\r\n`)
  const line = await world.gateway.process.logged(entry => entry['traceId'] === TRACE_ID)
  expect(line).not.toHaveProperty('spanId')
})
