import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, expect, test } from 'vitest'
import {
  type ForwardingApp,
  metricValue,
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

const retries = () => metricValue(gateway.metrics, 'postern_upstream_retries_total', {})
const ask = async () => (await get(gateway.port, WORKSPACE_PATH)).status

/** Clients that ask one after the other, with pauses of every length around the time after which the upstream closes. */
async function statusesOf(idleMs: number): Promise<number[]> {
  const statuses: number[] = []
  const client = async () => {
    while (statuses.length < REQUESTS) {
      statuses.push(0)
      const place = statuses.length - 1
      await pause(Math.random() * 2 * idleMs)
      statuses[place] = await ask()
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, client))
  return statuses
}

/** Closes a connection that was idle for so long, as servers do: what comes after is answered with a reset. */
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
])(
  'an upstream that closes idle connections after %i ms (%j) costs no client anything',
  async (idleMs, hint) => {
    upstream = await startScriptedUpstream(closingWhenIdle(idleMs, hint))
    gateway = await startForwardingApp(upstream.url)
    const statuses = await statusesOf(idleMs)
    const failed = statuses.filter(status => status !== 200).length
    const again = await retries()
    process.stdout.write(
      `\nidle ${idleMs} ms ${hint.trim()}: ${statuses.length} requests, ${failed} failed, ` +
        `${upstream.requests.length} at the upstream, ${again} sent again\n`,
    )
    expect(failed).toBe(0)
    expect(upstream.requests.length).toBeLessThanOrEqual(statuses.length + again)
    expect(await metricValue(gateway.metrics, 'postern_upstream_errors_total', {})).toBe(0)
  },
)

test.each([1, 2])(
  'a reset that meets the next request, before any of it is written, costs its client nothing after %i answers',
  async answers => {
    upstream = await startScriptedUpstream(request => request.send(json('{}')))
    let breaks = false
    gateway = await startForwardingApp(upstream.url, { connections: 1 }, {}, app => {
      app.addHook('onRequest', (_request, _reply, done) => {
        if (!breaks) return done()
        // Both in one turn of the event loop: whoever waits for the connection waits for it when the reset is read.
        setImmediate(() => {
          upstream.sockets[0]?.resetAndDestroy()
          done()
        })
      })
    })
    for (let asked = 0; asked < answers; asked++) expect(await ask()).toBe(200)
    breaks = true
    expect(await ask()).toBe(200)
    expect(upstream.requests).toHaveLength(answers + 1)
    expect(upstream.sockets).toHaveLength(2)
    expect(await metricValue(gateway.metrics, 'postern_upstream_errors_total', {})).toBe(0)
  },
)

test('an upstream that restarts under load costs what was under way, and nothing after it is back', async () => {
  const slowly: Script = request => void setTimeout(() => request.send(json('{}')), 5)
  upstream = await startScriptedUpstream(slowly)
  gateway = await startForwardingApp(upstream.url)
  const { port } = upstream
  const statuses: { status: number; when: string }[] = []
  let when = 'before'
  const client = async () => {
    while (when !== 'over') {
      const asked = when
      statuses.push({ status: await ask(), when: asked })
    }
  }
  const clients = Array.from({ length: CLIENTS }, client)
  const answered = (count: number) => () => statuses.filter(seen => seen.when === when).length >= count
  await until('load is on', answered(100))
  when = 'away'
  const beforeRestart = upstream.requests.length
  await upstream.stop()
  await until('nothing answers', answered(CLIENTS))
  const startedAtMs = performance.now()
  upstream = await startScriptedUpstream(slowly, undefined, { port })
  await until('it is used again', () => upstream.requests.length > 0)
  const recoveredMs = performance.now() - startedAtMs
  await until('nothing fails', () => statuses.slice(-CLIENTS).every(({ status }) => status === 200))
  when = 'back'
  await until('load goes on', answered(200))
  when = 'over'
  await Promise.all(clients)

  const failed = (phase: string) => statuses.filter(seen => seen.when === phase && seen.status !== 200)
  process.stdout.write(
    `\nrestart: ${statuses.length} requests, 0 wrong, ${failed('before').length} failed that were under way, ` +
      `${failed('away').length} while it was away, ${failed('back').length} after; used again ${recoveredMs.toFixed(0)} ms ` +
      `after it was back; ${beforeRestart + upstream.requests.length} requests at the upstream\n`,
  )
  expect(failed('before').length).toBeLessThanOrEqual(CLIENTS)
  expect(failed('away').every(({ status }) => status === 502 || status === 503)).toBe(true)
  expect(failed('back')).toEqual([])
  expect(recoveredMs).toBeLessThan(5_000)
  expect(beforeRestart + upstream.requests.length).toBeLessThanOrEqual(statuses.length + (await retries()))
})
