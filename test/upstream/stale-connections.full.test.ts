import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, expect, test } from 'vitest'
import {
  type ForwardingApp,
  metricSum,
  startForwardingApp,
  WORKSPACE_PATH,
} from '../support/forwarding-app.ts'
import { get } from '../support/http-client.ts'
import {
  json,
  type Script,
  type ScriptedRequest,
  type ScriptedUpstream,
  startScriptedUpstream,
} from '../support/scripted-upstream.ts'
import { until } from '../support/until.ts'

const CLIENTS = 8
const REQUESTS = 400
let upstream: ScriptedUpstream
let gateway: ForwardingApp

afterEach(async () => {
  await gateway.stop()
  await upstream.stop()
})

const retries = () => metricSum(gateway.metrics, 'postern_upstream_retries_total', {})
const send = async () => (await get(gateway.port, WORKSPACE_PATH)).status

/** Clients that send requests in sequence, with random pauses around the idle timeout of the upstream. */
async function statusesOf(idleMs: number): Promise<number[]> {
  const statuses: number[] = []
  const client = async () => {
    while (statuses.length < REQUESTS) {
      statuses.push(0)
      const index = statuses.length - 1
      await pause(Math.random() * 2 * idleMs)
      statuses[index] = await send()
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, client))
  return statuses
}

/** Closes idle connections as servers do: a later request gets a reset. */
function closingWhenIdle(idleMs: number, hint: string): Script {
  const timers = new WeakMap<ScriptedRequest['socket'], NodeJS.Timeout>()
  return request => {
    const { socket } = request
    clearTimeout(timers.get(socket))
    if (socket.writableEnded) {
      socket.resetAndDestroy()
      return
    }
    request.send(json('{}', hint))
    timers.set(
      socket,
      setTimeout(() => socket.end(), idleMs),
    )
  }
}

test.each([
  [0, ''],
  [1, ''],
  [5, ''],
  [20, ''],
  [5, 'Keep-Alive: timeout=5\r\n'],
  [20, 'Keep-Alive: timeout=1\r\n'],
])('no request fails if the upstream closes idle connections after %i ms (%j)', async (idleMs, hint) => {
  upstream = await startScriptedUpstream(closingWhenIdle(idleMs, hint))
  gateway = await startForwardingApp(upstream.url)
  const statuses = await statusesOf(idleMs)
  const failed = statuses.filter(status => status !== 200).length
  const retried = await retries()
  process.stdout.write(
    `\nidle ${idleMs} ms ${hint.trim()}: ${statuses.length} requests, ${failed} failed, ` +
      `${upstream.requests.length} at the upstream, ${retried} retried\n`,
  )
  expect(failed).toBe(0)
  expect(upstream.requests.length).toBeLessThanOrEqual(statuses.length + retried)
  expect(await metricSum(gateway.metrics, 'postern_upstream_errors_total', {})).toBe(0)
})

test.each([1, 2])(
  'a reset before the next request is written does not fail it, after %i responses',
  async responses => {
    upstream = await startScriptedUpstream(request => request.send(json('{}')))
    let breaks = false
    gateway = await startForwardingApp(upstream.url, { connections: 1 }, {}, app => {
      app.addHook('onRequest', (_request, _reply, done) => {
        if (!breaks) return done()
        // Both in one turn of the event loop, so that the request already waits for the connection when the reset arrives.
        setImmediate(() => {
          upstream.sockets[0]?.resetAndDestroy()
          done()
        })
      })
    })
    for (let count = 0; count < responses; count++) expect(await send()).toBe(200)
    breaks = true
    expect(await send()).toBe(200)
    expect(upstream.requests).toHaveLength(responses + 1)
    expect(upstream.sockets).toHaveLength(2)
    expect(await metricSum(gateway.metrics, 'postern_upstream_errors_total', {})).toBe(0)
  },
)

test('a restart of the upstream under load fails requests in flight, and none after it is ready', async () => {
  const slowly: Script = request => void setTimeout(() => request.send(json('{}')), 5)
  upstream = await startScriptedUpstream(slowly)
  gateway = await startForwardingApp(upstream.url)
  const { port } = upstream
  const statuses: { status: number; when: string }[] = []
  let when = 'before'
  const client = async () => {
    while (when !== 'over') {
      const sentWhen = when
      statuses.push({ status: await send(), when: sentWhen })
    }
  }
  const clients = Array.from({ length: CLIENTS }, client)
  const completed = (count: number) => () => statuses.filter(seen => seen.when === when).length >= count
  await until('requests are served', completed(100))
  when = 'down'
  const beforeRestart = upstream.requests.length
  await upstream.stop()
  await until('requests have failed', completed(CLIENTS))
  const startedAtMs = performance.now()
  upstream = await startScriptedUpstream(slowly, undefined, { port })
  await until('the upstream is used again', () => upstream.requests.length > 0)
  const recoveredMs = performance.now() - startedAtMs
  await until('no request fails', () => statuses.slice(-CLIENTS).every(({ status }) => status === 200))
  when = 'back'
  await until('requests are served again', completed(200))
  when = 'over'
  await Promise.all(clients)

  const failed = (phase: string) => statuses.filter(seen => seen.when === phase && seen.status !== 200)
  process.stdout.write(
    `\nrestart: ${statuses.length} requests, ${failed('before').length} failed in flight, ` +
      `${failed('down').length} while it was down, ${failed('back').length} after; used again ${recoveredMs.toFixed(0)} ms ` +
      `after its start; ${beforeRestart + upstream.requests.length} requests at the upstream\n`,
  )
  expect(failed('before').length).toBeLessThanOrEqual(CLIENTS)
  expect(failed('down').every(({ status }) => status === 502 || status === 503)).toBe(true)
  expect(failed('back')).toEqual([])
  expect(recoveredMs).toBeLessThan(5_000)
  expect(beforeRestart + upstream.requests.length).toBeLessThanOrEqual(statuses.length + (await retries()))
})
