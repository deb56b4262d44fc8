import { afterEach, expect, test } from 'vitest'
import { type Caller, type LoadFigures, loadClosed } from '../support/closed-loop.ts'
import { untilGood } from '../support/measured-again.ts'
import { scrape, sumOf } from '../support/scrape.ts'
import { until } from '../support/until.ts'
import { startWorld, type World } from '../support/world.ts'

/** Enough workspaces that none has a quarter of the requests in flight, which another rule limits. */
const WORKSPACES = 8
const CONNECTIONS = 64
const SERVICE_MS = 20
/** On a shared machine other programs may slow down either side of a comparison. */
const ATTEMPTS = 6

let world: World
let callers: Caller[]
afterEach(() => world.stop())

const load = (connections: number, accepted: number) =>
  loadClosed(world.gateway.urls.gateway, { callers, connections, accepted })
const callerOf = async (workspaceId: string) => {
  const { secret } = await world.issue({ workspaceId })
  return { target: `/api/v1/workspaces/${workspaceId}`, secret }
}
const ok = ({ statuses }: LoadFigures) => statuses.get(200) ?? 0
const acceptedPerSecond = (figures: LoadFigures) => ok(figures) / figures.seconds
const counts = async () => {
  const metrics = await scrape(world.gateway.urls.ops)
  return {
    shed: sumOf(metrics, 'postern_http_rejected_total', 'reason="overloaded"'),
    lookups: sumOf(metrics, 'postern_key_cache_lookups_total', 'memory'),
    sent: world.upstream.requests.length,
  }
}
const say = (what: string, figures: LoadFigures) =>
  process.stdout.write(
    `${what}: ${figures.answers} answers in ${figures.seconds.toFixed(1)} s, ${ok(figures)} accepted ` +
      `(${Math.round(acceptedPerSecond(figures))}/s), p99 of those ${figures.p99Ms.toFixed(0)} ms\n`,
  )

test('at more than three times the capacity, accepted requests stay as fast and as many, and rejected ones cost no lookup', async () => {
  world = await startWorld({
    POSTERN_LOG_LEVEL: 'warn',
    POSTERN_UPSTREAM_CONNECTIONS: String(CONNECTIONS),
    POSTERN_UPSTREAM_QUEUE_MAX_REQUESTS: String(CONNECTIONS),
    // Requests above this are shed, however fast the machine is.
    POSTERN_GATEWAY_MAX_IN_FLIGHT: String(1.5 * CONNECTIONS),
  })
  callers = await Promise.all(Array.from({ length: WORKSPACES }, (_, number) => callerOf(`ws_${number}`)))
  world.upstream.hold = () => new Promise(resolve => setTimeout(resolve, SERVICE_MS))
  await load(8, 100)

  const connections = 7 * CONNECTIONS
  const measure = async () => {
    const unloaded = await load(8, 1_000)
    const bearable = await load(CONNECTIONS, 4_000)
    const before = await counts()
    const [flood, probe] = await Promise.all([
      load(connections, 5_000),
      fetch(`${world.gateway.urls.ops}/livez`),
    ])
    expect(probe.status).toBe(200)
    const after = await counts()
    process.stdout.write('\n')
    say('8 connections', unloaded)
    say(`${CONNECTIONS} connections`, bearable)
    say(`${connections} connections`, flood)
    expect([...flood.statuses.keys()].sort()).toEqual([200, 503])
    // Requests still in flight when the load ended may have cost lookups, too.
    const shed = after.shed - before.shed
    expect(shed).toBeGreaterThan(0)
    expect(after.lookups - before.lookups).toBeLessThanOrEqual(flood.answers - shed + connections)
    expect(after.sent - before.sent).toBeLessThanOrEqual(ok(flood) + connections)
    // Without the delay, rejected clients would retry twenty times per accepted request and use up its processor time.
    expect(flood.answers).toBeLessThan(10 * ok(flood))
    return {
      slower: flood.p99Ms / unloaded.p99Ms,
      done: acceptedPerSecond(flood) / acceptedPerSecond(bearable),
    }
  }
  const results = await untilGood(measure, ({ slower, done }) => slower < 5 && done > 0.7, ATTEMPTS)
  expect(results.at(-1)?.slower).toBeLessThan(5)
  expect(results.at(-1)?.done).toBeGreaterThan(0.7)

  await until('every request is accepted again', async () => {
    const figures = await load(8, 50)
    return figures.answers === ok(figures)
  })
})
