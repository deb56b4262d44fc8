import { afterEach, expect, test } from 'vitest'
import type { UpstreamSettings } from '../../src/upstream/pool/connection.ts'
import {
  type ForwardingApp,
  metricSum,
  startForwardingApp,
  WORKSPACE_PATH,
} from '../support/forwarding-app.ts'
import { get } from '../support/http-client.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { json, type ScriptedUpstream, startScriptedUpstream } from '../support/scripted-upstream.ts'
import { until } from '../support/until.ts'

let upstream: ScriptedUpstream
let gateway: ForwardingApp

/** The upstream responds when the test calls `respondToAll`, and time passes when the test says so. */
async function start(settings: Partial<UpstreamSettings>) {
  const clock = new ManualClock()
  upstream = await startScriptedUpstream(() => {})
  gateway = await startForwardingApp(upstream.url, { connections: 2, ...settings }, { clock })
  return clock
}

const send = () => get(gateway.port, WORKSPACE_PATH)
const queued = () => metricSum(gateway.metrics, 'postern_upstream_queued_requests', {})
const queueFullErrors = () =>
  metricSum(gateway.metrics, 'postern_upstream_errors_total', { kind: 'queue_full' })
const queueFull = JSON.stringify({ code: 'upstream_queue_full', error: 'Refused' })
const respondToAll = () => {
  upstream.script = request => request.send(json('{}'))
  for (const request of upstream.requests) request.send(json('{}'))
}

afterEach(async () => {
  await gateway.stop()
  await upstream.stop()
})

test('while all connections are busy, requests up to the queue’s size wait, and others are rejected at once', async () => {
  await start({ queue: { maxRequests: 3, maxWaitMs: 60_000 } })
  const served = Array.from({ length: 5 }, send)
  await until('three requests are queued', async () => (await queued()) === 3)
  const rejected = await Promise.all([send(), send()])
  expect(rejected).toMatchObject([
    { status: 503, text: queueFull },
    { status: 503, text: queueFull },
  ])
  expect(await queueFullErrors()).toBe(2)
  expect(upstream.requests).toHaveLength(2)

  respondToAll()
  expect((await Promise.all(served)).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
  expect(await queued()).toBe(0)
  expect(upstream.requests).toHaveLength(5)
  process.stdout.write('\nfull queue: 7 requests, 5 served, 2 rejected at once, 5 at the upstream\n')
})

test('a queued request is rejected at its deadline, also if the upstream is only slow', async () => {
  const clock = await start({ queue: { maxRequests: 3, maxWaitMs: 100 } })
  const served = [send(), send()]
  await upstream.received(2)
  const late = [send(), send()]
  await until('both are queued', async () => (await queued()) === 2)
  clock.advance(99)
  expect(await queued()).toBe(2)
  clock.advance(1)
  expect(await Promise.all(late)).toMatchObject([{ text: queueFull }, { text: queueFull }])
  expect(await queued()).toBe(0)
  respondToAll()
  expect((await Promise.all(served)).map(({ status }) => status)).toEqual([200, 200])
  expect(upstream.requests).toHaveLength(2)
  // These rejections do not count as failures of the upstream.
  expect((await send()).status).toBe(200)
})

test('without a queue, a request is rejected if no connection is free', async () => {
  await start({ queue: { maxRequests: 0, maxWaitMs: 100 } })
  const served = [send(), send()]
  await upstream.received(2)
  expect((await send()).text).toBe(queueFull)
  respondToAll()
  expect((await Promise.all(served)).map(({ status }) => status)).toEqual([200, 200])
})
