import { afterEach, expect, test } from 'vitest'
import type { UpstreamSettings } from '../../src/upstream/pool/connection.ts'
import {
  type ForwardingApp,
  metricValue,
  startForwardingApp,
  WORKSPACE_PATH,
} from '../support/forwarding-app.ts'
import { get } from '../support/http-client.ts'
import { json, type ScriptedUpstream, startScriptedUpstream } from '../support/scripted-upstream.ts'
import { until } from '../support/until.ts'

let upstream: ScriptedUpstream
let gateway: ForwardingApp

/** An upstream that answers when it is told to. */
async function start(settings: Partial<UpstreamSettings>) {
  upstream = await startScriptedUpstream(() => {})
  gateway = await startForwardingApp(upstream.url, { connections: 2, ...settings })
}

const ask = () => get(gateway.port, WORKSPACE_PATH)
const queued = () => metricValue(gateway.metrics, 'postern_upstream_queued_requests', {})
const refusals = () => metricValue(gateway.metrics, 'postern_upstream_errors_total', { kind: 'queue_full' })
const busy = JSON.stringify({ code: 'upstream_queue_full', error: 'Refused' })
const answerAll = () => {
  upstream.script = request => request.send(json('{}'))
  for (const request of upstream.requests) request.send(json('{}'))
}

afterEach(async () => {
  await gateway.stop()
  await upstream.stop()
})

test('while all connections are busy so many requests wait, and no more: the others hear so at once', async () => {
  await start({ queue: { maxRequests: 3, maxWaitMs: 60_000 } })
  const served = Array.from({ length: 5 }, ask)
  await until('three wait', async () => (await queued()) === 3)
  const refused = await Promise.all([ask(), ask()])
  expect(refused).toMatchObject([
    { status: 503, text: busy },
    { status: 503, text: busy },
  ])
  expect(await refusals()).toBe(2)
  expect(upstream.requests).toHaveLength(2)

  answerAll()
  expect((await Promise.all(served)).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
  expect(await queued()).toBe(0)
  expect(upstream.requests).toHaveLength(5)
  process.stdout.write('\nfull queue: 7 requests, 5 answered, 2 refused at once, 5 at the upstream\n')
})

test('none waits longer than it may, though the upstream still works on what it has', async () => {
  await start({ queue: { maxRequests: 3, maxWaitMs: 100 } })
  const served = [ask(), ask()]
  await upstream.received(2)
  expect(await Promise.all([ask(), ask()])).toMatchObject([{ text: busy }, { text: busy }])
  expect(await queued()).toBe(0)
  answerAll()
  expect((await Promise.all(served)).map(({ status }) => status)).toEqual([200, 200])
  expect(upstream.requests).toHaveLength(2)
  // Refusing in time is no sign that the upstream is away.
  expect((await ask()).status).toBe(200)
})

test('without a queue, who finds no connection is refused', async () => {
  await start({ queue: { maxRequests: 0, maxWaitMs: 100 } })
  const served = [ask(), ask()]
  await upstream.received(2)
  expect((await ask()).text).toBe(busy)
  answerAll()
  expect((await Promise.all(served)).map(({ status }) => status)).toEqual([200, 200])
})
