import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { importSigningSecret, mintSecret } from '../../src/domain/key/secret.ts'
import type { Listening } from '../support/postern-process.ts'
import { peakMegabytes } from '../support/process-memory.ts'
import { get, RawClient } from '../support/raw-client.ts'
import { jsonAnswer } from '../support/recording-upstream.ts'
import { scrapeOne } from '../support/scrape.ts'
import { until } from '../support/until.ts'
import { startWorld, type World } from '../support/world.ts'
import { type Beside, breachesBeside, LISTENERS, MAX_MEGABYTES } from './beside.ts'
import {
  breachesOfConnection,
  breachesOfReading,
  MAX_UNANSWERED,
  type SeenConnection,
} from './connection-law.ts'
import { TINY } from './connection-pieces.ts'
import {
  type ConnectionPlan,
  connectionsPlan,
  type Listener,
  MOST_CONNECTIONS,
  type Plan,
} from './connection-plans.ts'
import { isLawful } from './fuzz-requests.ts'
import { FuzzedConnection, isFlood } from './fuzzed-connection.ts'
import { HonestClient } from './honest-client.ts'
import { shrink } from './shrink-plan.ts'

export interface ConnectionBreach {
  readonly seed: number
  readonly what: readonly string[]
  /** The smallest plan found with the same violation. */
  readonly plan: Plan
}

export interface ConnectionFuzzReport {
  readonly plans: number
  readonly connections: number
  /** Responses by status, for each listener. */
  readonly answers: ReadonlyMap<string, number>
  readonly breaches: readonly ConnectionBreach[]
  readonly beside: Beside
}

/** Timeouts of the gateway for heads and for reading responses. */
const HEADERS_TIMEOUT_MS = 2_000
/** Responses that fit into kernel buffers count as read, so the connection is idle. */
const KEEP_ALIVE_TIMEOUT_MS = 3_000
const AT_ONCE = 8
const SLOW_MS = 40
const HELD_MS = 1_000
const BIG = `{"id":"ws_1","pad":"${'x'.repeat(300_000)}"}`
const SAMPLE_MS = 100
const REQUEST_ID = /^x-request-id: (.*)$/im
/** Number of findings that are shrunk; more rarely add information. */
const MAX_SHRUNK = 3
/** The chart's default. */
const HEAP_OPTION = `--max-old-space-size=${MAX_MEGABYTES / 2}`

/** Sends connections of all kinds to a running gateway and console, next to well-behaved clients. */
export class ConnectionFuzzer {
  readonly world: World
  readonly #values: Readonly<Record<string, string>>
  /** Size of the response to `TINY`. */
  readonly #tinyAnswerBytes: number
  readonly #honest: Readonly<Record<Listener, HonestClient>>
  /** Names of the requests that reached the upstream, by connection. */
  readonly #arrived = new Map<string, string[]>()
  readonly #unanswered = new Map<string, number>()
  /** Connections whose requests may still arrive. */
  readonly #open = new Set<string>()
  #atUpstream: string[] = []
  #number = 0
  #peakInFlight = 0
  #isRunning = true
  readonly #sampled: Promise<void>

  private constructor(
    world: World,
    values: Readonly<Record<string, string>>,
    tinyAnswerBytes: number,
    honest: Readonly<Record<Listener, HonestClient>>,
  ) {
    this.world = world
    this.#values = values
    this.#tinyAnswerBytes = tinyAnswerBytes
    this.#honest = honest
    world.upstream.hold = request => this.#arrive(request)
    world.upstream.answer = request =>
      jsonAnswer(200, nameIn(request).endsWith('-big') ? BIG : '{"id":"ws_1"}')
    this.#sampled = this.#sample()
  }

  static async start(): Promise<ConnectionFuzzer> {
    const world = await startWorld(
      {
        POSTERN_GATEWAY_HEADERS_TIMEOUT_MS: String(HEADERS_TIMEOUT_MS),
        // With the default a client that half-closes loses responses, but which ones depends on time.
        POSTERN_GATEWAY_ABORT_ON_CLOSE: 'false',
        // Overload shedding depends on the machine and has its own test.
        POSTERN_GATEWAY_MAX_LOOP_DELAY_MS: '60000',
        POSTERN_GATEWAY_KEEP_ALIVE_TIMEOUT_MS: String(KEEP_ALIVE_TIMEOUT_MS),
        POSTERN_LOG_LEVEL: 'warn',
        NODE_OPTIONS: HEAP_OPTION,
      },
      { POSTERN_LOG_LEVEL: 'warn', NODE_OPTIONS: HEAP_OPTION },
    )
    const { secret } = await world.issue()
    const other = await world.issue({ workspaceId: 'ws_honest' })
    const token = world.cliEnv['POSTERN_ADMIN_TOKEN'] ?? ''
    const forged = mintSecret('wsk_', randomBytes(32), importSigningSecret(randomBytes(32))).reveal()
    const tiny = new RawClient(world.gateway.urls.gateway)
    tiny.send(TINY)
    await tiny.answers(1)
    tiny.end()
    const values = { key: secret, forged, token }
    return new ConnectionFuzzer(world, values, tiny.received.length, {
      gateway: new HonestClient(
        world.gateway.urls.gateway,
        get('/api/v1/workspaces/ws_honest', other.secret),
      ),
      console: new HonestClient(world.console.urls.console, get('/admin/v1/workspaces/ws_none/keys', token)),
    })
  }

  async run(runs: number, firstSeed: number): Promise<ConnectionFuzzReport> {
    await this.takeBeside()
    const answers = new Map<string, number>()
    const found: { seed: number; what: readonly string[]; plan: Plan }[] = []
    let connections = 0
    let seed = firstSeed
    const work = async () => {
      while (seed < firstSeed + runs) {
        const own = seed++
        const plan = connectionsPlan(own)
        connections += plan.length
        const what = await this.judge(plan, ({ listener }, { status }) => {
          const name = `${listener} ${status}`
          answers.set(name, (answers.get(name) ?? 0) + 1)
        })
        if (what.length > 0) found.push({ seed: own, what, plan })
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
    const beside = await this.takeBeside()
    const breaches: ConnectionBreach[] = []
    for (const [index, { seed, what, plan }] of found.entries()) {
      const breaks = async (smaller: Plan) => (await this.judge(smaller)).length > 0
      breaches.push({ seed, what, plan: index < MAX_SHRUNK ? await shrink(plan, breaks) : plan })
    }
    const aside = breachesBeside(beside, AT_ONCE * MOST_CONNECTIONS)
    if (aside.length > 0) breaches.push({ seed: firstSeed, what: aside, plan: [] })
    return { plans: runs, connections, answers, breaches, beside }
  }

  /** Checks the connections of a plan. @returns each violation once */
  async judge(
    plan: Plan,
    onAnswer: (plan: ConnectionPlan, answer: SeenConnection['answers'][number]) => void = () => {},
  ): Promise<string[]> {
    const breaches = await Promise.all(
      plan.map(async connection => {
        const id = `c${this.#number++}`
        const { seen, late } = await this.#use(connection, id)
        for (const answer of seen.answers) onAnswer(connection, answer)
        return [...late, ...breachesOfConnection(connection, id, seen)]
      }),
    )
    return [...new Set(breaches.flat())]
  }

  /** Observations since the last call; waits for a request of each well-behaved client. */
  async takeBeside(): Promise<Beside> {
    await Promise.all(LISTENERS.map(listener => this.#honest[listener].served()))
    const beside = {
      honest: { gateway: this.#honest.gateway.take(), console: this.#honest.console.take() },
      atUpstream: this.#atUpstream,
      peakInFlight: this.#peakInFlight,
      peakMegabytes: { gateway: peakOf(this.world.gateway), console: peakOf(this.world.console) },
    }
    this.#peakInFlight = 0
    this.#atUpstream = []
    return beside
  }

  /** Whether both processes are alive and have logged no error. */
  faults(): string[] {
    return [this.world.gateway, this.world.console].flatMap(({ process: { child, log } }) => {
      const loggedErrors = log.filter(line => Number(line['level']) >= 50).map(line => JSON.stringify(line))
      return child.exitCode === null && child.signalCode === null
        ? loggedErrors
        : ['it ended', ...loggedErrors]
    })
  }

  /** Waits until no request is in flight, except those of well-behaved clients. */
  async idle(): Promise<void> {
    await until('nothing is in flight', async () => (await this.#inFlight()) <= 1)
  }

  async stop(): Promise<void> {
    this.#isRunning = false
    await Promise.all([this.#sampled, ...LISTENERS.map(listener => this.#honest[listener].stop())])
    await this.world.stop()
  }

  async #use(plan: ConnectionPlan, id: string): Promise<{ seen: SeenConnection; late: string[] }> {
    const { gateway, console } = this.world
    const url = plan.listener === 'gateway' ? gateway.urls.gateway : console.urls.console
    const values = { ...this.#values, id }
    this.#open.add(id)
    const connection = new FuzzedConnection(url, plan, values)
    const run = connection.run()
    const most = isFlood(plan) ? this.#watch(connection, run, plan, values) : Promise.resolve([])
    const late = [...(await run), ...(await most)]
    await until(`no request of ${id} remains at the upstream`, () => !this.#unanswered.has(id))
    const effects =
      plan.listener === 'gateway' ? (this.#arrived.get(id) ?? []) : await this.#keysOf(`ws-${id}`)
    this.#arrived.delete(id)
    // An orderly close looks like a half-close: requests of a disconnected client may still arrive.
    if (!plan.steps.some(step => step.do === 'destroy')) this.#open.delete(id)
    return { seen: { ...connection.seen, effects }, late }
  }

  /** @returns the first violation of the limit on bytes read */
  async #watch(
    connection: FuzzedConnection,
    run: Promise<unknown>,
    plan: ConnectionPlan,
    values: Readonly<Record<string, string>>,
  ): Promise<string[]> {
    let isOver = false
    void run.then(() => {
      isOver = true
    })
    while (!isOver) {
      const passed = await connection.passed()
      const breaches = passed === null ? [] : breachesOfReading(plan, values, this.#tinyAnswerBytes, passed)
      if (breaches.length > 0) return breaches
      await sleep(SAMPLE_MS / 2)
    }
    return []
  }

  async #keysOf(workspaceId: string): Promise<string[]> {
    const { status, json } = await this.world.admin('GET', `/workspaces/${workspaceId}/keys?limit=200`)
    if (status !== 200) throw new Error(`The console answered ${status}`)
    // The console's response is trusted here; test/console tests it.
    return (json['keys'] as { name: string }[]).map(({ name }) => name)
  }

  #arrive(request: string): Promise<void> | undefined {
    const { requests } = this.world.upstream
    requests.length = 0
    if (request.startsWith('GET /api/v1/workspaces/ws_honest ')) return undefined
    const name = nameIn(request)
    const [id = ''] = name.split('-', 1)
    if (!this.#open.has(id) || !isLawful(request, this.#values['key'] ?? '')) this.#atUpstream.push(request)
    const names = this.#arrived.get(id) ?? []
    this.#arrived.set(id, [...names, name])
    const unanswered = (this.#unanswered.get(id) ?? 0) + 1
    if (unanswered > MAX_UNANSWERED) {
      this.#atUpstream.push(`${unanswered} unanswered requests of ${id} are at the upstream`)
    }
    const heldMs = name.endsWith('-slow') ? SLOW_MS : name.endsWith('-held') ? HELD_MS : 0
    if (heldMs === 0) return undefined
    this.#unanswered.set(id, unanswered)
    return sleep(heldMs).then(() => {
      const left = (this.#unanswered.get(id) ?? 0) - 1
      if (left > 0) this.#unanswered.set(id, left)
      else this.#unanswered.delete(id)
    })
  }

  async #sample(): Promise<void> {
    while (this.#isRunning) {
      this.#peakInFlight = Math.max(this.#peakInFlight, await this.#inFlight())
      await sleep(SAMPLE_MS)
    }
  }

  #inFlight(): Promise<number> {
    return scrapeOne(this.world.gateway.urls.ops, 'postern_http_requests_in_flight')
  }
}

function peakOf({ process: { child } }: Listening): number {
  return child.pid === undefined ? Number.NaN : peakMegabytes(child.pid)
}

function nameIn(request: string): string {
  return REQUEST_ID.exec(request)?.[1]?.trim() ?? ''
}
