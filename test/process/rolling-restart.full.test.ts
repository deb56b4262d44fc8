import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { Haproxy } from '../support/haproxy.ts'
import { KeepAliveLoad, type Question } from '../support/keep-alive-load.ts'
import { type Listening, startPostern } from '../support/postern-process.ts'
import { get } from '../support/raw-client.ts'
import { jsonAnswer } from '../support/recording-upstream.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { HAPROXY, has } from '../support/tools.ts'
import { startWorld, type World } from '../support/world.ts'

/** For a longer run: `ROLLING_RESTART_REQUESTS=1000000 npx vitest run --mode full test/process/rolling-restart.full.test.ts`. */
const REQUESTS = Number(process.env['ROLLING_RESTART_REQUESTS'] ?? 20_000)
const REPLICAS = 3
const CLIENTS = 32
/** Longer than HAProxy takes to notice that a replica is not ready. */
const DRAIN_DELAY_MS = 1000

interface Place {
  readonly env: Readonly<Record<string, string>>
  replica: Listening
  /** Whether new connections may use it, as service discovery would say. */
  open: boolean
}

let world: World
let places: Place[]
let next: () => Question

beforeAll(async () => {
  world = await startWorld()
  const holders = await Promise.all(
    Array.from({ length: 10 }, async (_, index) => {
      const workspaceId = `ws_${index}`
      return { workspaceId, ...(await world.issue({ workspaceId })) }
    }),
  )
  let asked = 0
  next = () => {
    const holder = holders[asked++ % holders.length] ?? holders[0]
    const path = `/api/v1/workspaces/${holder?.workspaceId}`
    const mark = `r-${asked}`
    return {
      bytes: get(path, holder?.secret, `X-Request-Id: ${mark}`),
      expected: JSON.stringify({ id: holder?.workspaceId, mark }),
    }
  }
  places = await Promise.all(
    Array.from({ length: REPLICAS }, async () => {
      const env = {
        ...world.env,
        POSTERN_GATEWAY_PORT: String(await freePort()),
        POSTERN_OPS_PORT: String(await freePort()),
        POSTERN_DRAIN_DELAY_MS: String(DRAIN_DELAY_MS),
        POSTERN_LOG_LEVEL: 'warn',
      }
      return { env, replica: await startPostern('gateway', env), open: true }
    }),
  )
})
afterAll(async () => {
  await Promise.all(places.map(({ replica }) => replica.process.stop()))
  await world.stop()
})

/** Each response names the workspace in the forwarded request, and the request itself. */
function answerWhatWasAsked(): void {
  world.upstream.reset()
  world.upstream.answer = request => {
    const id = /x-postern-workspace-id: (.*)\r/i.exec(request)?.[1]
    const mark = /x-request-id: (.*)\r/i.exec(request)?.[1]
    return jsonAnswer(200, JSON.stringify({ id, mark }))
  }
}

/** Stops and starts each replica in turn while requests continue. */
async function restartAll(load: KeepAliveLoad, requests: number): Promise<number[]> {
  const awayMs: number[] = []
  for (const [index, place] of places.entries()) {
    await load.reached((requests * (index + 1)) / (REPLICAS + 2))
    place.open = false
    const endedAtMs = performance.now()
    const exit = await place.replica.process.stop('SIGTERM')
    expect([exit.code, exit.stderr]).toEqual([0, ''])
    place.replica = await startPostern('gateway', place.env)
    place.open = true
    awayMs.push(performance.now() - endedAtMs)
  }
  await load.reached(requests)
  await load.stop()
  return awayMs
}

function report(what: string, load: KeepAliveLoad, tookMs: number, awayMs: readonly number[]): void {
  const away = awayMs.map(ms => `${(ms / 1000).toFixed(1)} s`).join(', ')
  process.stdout.write(
    `rolling restart, ${what}: ${load.sent} requests in ${(tookMs / 1000).toFixed(1)} s on ${load.connections} connections, ` +
      `wrong ${load.wrong.length}, failed ${load.failed.length}; closed with notice ${load.announcedCloses}, without notice ${load.unannouncedCloses}; replicas down for ${away} (drain delay ` +
      `${DRAIN_DELAY_MS} ms in it); ` +
      `upstream requests ${world.upstream.requests.length}\n`,
  )
}

function expectNothingLost(loads: readonly KeepAliveLoad[]): void {
  for (const { wrong, failed } of loads) {
    expect({ wrong: wrong.slice(0, 5), failed: failed.slice(0, 5) }).toEqual({ wrong: [], failed: [] })
  }
  // Every client request is exactly one upstream request.
  expect(world.upstream.requests.length).toBe(loads.reduce((sum, load) => sum + load.sent, 0))
}

describe.skipIf(!has(HAPROXY))('behind HAProxy', () => {
  test('three replicas are restarted one after another without a failed request', async () => {
    answerWhatWasAsked()
    const ports = places.map(({ env }) => ({
      port: Number(env['POSTERN_GATEWAY_PORT']),
      opsPort: Number(env['POSTERN_OPS_PORT']),
    }))
    const haproxy = await Haproxy.start(temporaryDirectory(), ports)
    world.upstream.requests.length = 0
    const startedAtMs = performance.now()
    const load = new KeepAliveLoad({ clients: CLIENTS, target: () => haproxy.url, next })
    const awayMs = await restartAll(load, REQUESTS)
    report('behind HAProxy', load, performance.now() - startedAtMs, awayMs)
    await haproxy.stop()
    expectNothingLost([load])
    expect(load.answered).toBeGreaterThanOrEqual(REQUESTS)
  })
})

test('replicas announce the end of a connection to its client, and no request is lost', async () => {
  answerWhatWasAsked()
  let turn = 0
  const target = () => {
    const open = places.filter(place => place.open)
    return open[turn++ % open.length]?.replica.urls.gateway ?? ''
  }
  const requests = REQUESTS / 5
  const startedAtMs = performance.now()
  const busy = new KeepAliveLoad({ clients: CLIENTS / 2, target, next })
  // Slow clients get the announcement, too, if the drain delay is longer than the time between two requests.
  const leisurely = new KeepAliveLoad({ clients: CLIENTS / 2, target, next, pauseMs: DRAIN_DELAY_MS / 4 })
  const awayMs = await restartAll(busy, requests)
  await leisurely.stop()
  report('busy clients of each replica', busy, performance.now() - startedAtMs, awayMs)
  report('occasional clients', leisurely, performance.now() - startedAtMs, awayMs)
  expectNothingLost([busy, leisurely])
  for (const load of [busy, leisurely]) {
    expect(load.unannouncedCloses).toBe(0)
    expect(load.announcedCloses).toBeGreaterThanOrEqual(CLIENTS / 2)
  }
})
