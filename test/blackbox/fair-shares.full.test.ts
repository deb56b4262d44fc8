import { afterEach, expect, test } from 'vitest'
import { type LoadFigures, loadClosed, percentile } from '../support/closed-loop.ts'
import { GreedyClients } from '../support/greedy-clients.ts'
import { measured } from '../support/measured-again.ts'
import { get } from '../support/raw-client.ts'
import { jsonAnswer } from '../support/recording-upstream.ts'
import { scrape, scrapeOne, sumOf } from '../support/scrape.ts'
import { until } from '../support/until.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

/** A quarter of the defaults for connections and for slots in the queue. */
const CONNECTIONS = 32
const PLACES = 96
const HONEST = ['ws_1', 'ws_2', 'ws_3', 'ws_4']
const ANSWERS_EACH = 250
const LARGE = 8 * 1024 * 1024
const GREEDY_PATH = '/api/v1/workspaces/ws_greedy'
const PATIENCE_MS = 5_000

let world: World
let greedyKey: IssuedKey
let honestKeys: IssuedKey[]
let greedy: GreedyClients | null = null
const release = Promise.withResolvers<void>()

afterEach(async () => {
  greedy?.disconnect()
  greedy = null
  await world.stop()
})

async function start(settings: Record<string, string> = {}): Promise<void> {
  world = await startWorld({
    POSTERN_LOG_LEVEL: 'warn',
    POSTERN_UPSTREAM_CONNECTIONS: String(CONNECTIONS),
    POSTERN_UPSTREAM_QUEUE_MAX_REQUESTS: String(PLACES),
    POSTERN_UPSTREAM_HEADERS_TIMEOUT_MS: '60000',
    POSTERN_UPSTREAM_QUEUE_MAX_WAIT_MS: '60000',
    // Overload shedding depends on the machine and has its own test.
    POSTERN_GATEWAY_MAX_LOOP_DELAY_MS: '60000',
    ...settings,
  })
  honestKeys = await Promise.all(HONEST.map(workspaceId => world.issue({ workspaceId })))
  greedyKey = await world.issue({ workspaceId: 'ws_greedy' })
}

function attack(count: number): void {
  greedy = new GreedyClients(world.gateway.urls.gateway, get(GREEDY_PATH, greedyKey.secret))
  greedy.connect(count)
}

/** Two connections per honest workspace, without pauses, until each has the required number of responses. */
async function honest(): Promise<LoadFigures[]> {
  return Promise.all(
    HONEST.map((workspace, index) =>
      loadClosed(world.gateway.urls.gateway, {
        target: `/api/v1/workspaces/${workspace}`,
        secret: honestKeys[index]?.secret ?? '',
        connections: 2,
        accepted: ANSWERS_EACH,
      }),
    ),
  )
}

const longestOf = (figures: readonly LoadFigures[]) => Math.max(...figures.map(each => each.longestMs))

async function expectServed(what: string): Promise<void> {
  const figures = await measured({
    what,
    pids: () => world.pids,
    measure: honest,
    missedByMs: figures => longestOf(figures) - PATIENCE_MS,
  })
  const metrics = await scrape(world.gateway.urls.ops)
  const answers = figures.reduce((sum, each) => sum + each.answers, 0)
  const failed = answers - figures.reduce((sum, { statuses }) => sum + (statuses.get(200) ?? 0), 0)
  const longestMs = longestOf(figures)
  const p99Ms = percentile(
    figures.map(each => each.p99Ms),
    1,
  )
  process.stdout.write(
    `\n${what}: ${answers} honest requests of ${HONEST.length} workspaces beside it, ${failed} failed, ` +
      `p99 ${p99Ms.toFixed(0)} ms, longest ${longestMs.toFixed(0)} ms (of the slowest workspace); ` +
      `connections taken for them: ${sumOf(metrics, 'postern_upstream_errors_total', 'preempted')}\n`,
  )
  expect(failed).toBe(0)
  expect(longestMs).toBeLessThan(PATIENCE_MS)
}

const large = Buffer.from(jsonAnswer(200, `"${'a'.repeat(LARGE)}"`), 'latin1')
const isGreedy = (request: string) => request.includes('ws_greedy')
const inFlight = () => scrapeOne(world.gateway.urls.ops, 'postern_http_requests_in_flight')
const queued = async () => sumOf(await scrape(world.gateway.urls.ops), 'postern_upstream_queued_requests')

test('clients of one workspace that read large responses slowly do not starve other workspaces', async () => {
  await start()
  world.upstream.answer = request => (isGreedy(request) ? large : jsonAnswer(200, '{}'))
  attack(CONNECTIONS + PLACES)
  await until(
    'they hold every connection and every queue slot',
    async () => (await queued()) === PLACES,
    30_000,
  )
  await expectServed(`${CONNECTIONS + PLACES} clients that read ${LARGE / 1024 / 1024} MB slowly`)
})

test('requests of one workspace that the upstream does not answer do not starve other workspaces', async () => {
  await start()
  world.upstream.hold = request => (isGreedy(request) ? release.promise : undefined)
  attack(CONNECTIONS + PLACES)
  await until(
    'they hold every connection and every queue slot',
    async () => (await queued()) === PLACES,
    30_000,
  )
  await expectServed(`${CONNECTIONS + PLACES} requests without a response`)
})

test('a workspace that uses its whole share of requests in flight does not lock out other workspaces', async () => {
  await start({
    POSTERN_GATEWAY_MAX_IN_FLIGHT: String(CONNECTIONS),
    POSTERN_UPSTREAM_CONNECTIONS: String(4 * CONNECTIONS),
  })
  world.upstream.hold = request => (isGreedy(request) ? release.promise : undefined)
  attack(2 * CONNECTIONS)
  await until('they use all requests in flight', async () => (await inFlight()) >= CONNECTIONS, 30_000)
  await until('further requests are rejected', () => (greedy?.refused ?? 0) > 0, 30_000)
  await expectServed(`${2 * CONNECTIONS} requests without a response where ${CONNECTIONS} may be in flight`)
  const held = world.upstream.requests.filter(isGreedy).length
  expect(held).toBeLessThanOrEqual(CONNECTIONS)
  const metrics = await scrape(world.gateway.urls.ops)
  expect(sumOf(metrics, 'postern_http_rejected_total', 'reason="workspace_overloaded"')).toBeGreaterThan(0)
})
