import { startWorld, type World } from '../support/world.ts'
import { breachOf, type Seen } from './answer-law.ts'
import { type AnswerPlan, answerPlan } from './answer-plans.ts'
import { chance } from './mutate.ts'
import { CLEAN, PlannedUpstream } from './planned-upstream.ts'
import { readResponse, valuesOf } from './strict-answer.ts'
import { StrictClient } from './strict-client.ts'

export interface AnswerFuzzReport {
  readonly sent: number
  /** By status that a client received; `cut` if a response visibly ended early. */
  readonly outcomes: ReadonlyMap<string, number>
  readonly breaches: readonly AnswerBreach[]
}

/** With everything needed to reproduce it, independent of seeds. */
export interface AnswerBreach {
  readonly seed: number
  readonly what: string
  readonly plan: AnswerPlan
  readonly client: ClientVersion
  readonly seen: string
}

interface Exchange {
  readonly outcome: string
  readonly breach: string | null
  readonly seen: string
}

export type ClientVersion = '1.0' | '1.1'

const AT_ONCE = 16
/** Timeout for a missing response, short because a run has many. */
const PATIENCE_MS = 250
const TARGET = '/api/v1/workspaces/ws_1'

/** A gateway in front of an upstream with mutated responses; each exchange is found by its request id. */
export class AnswerFuzzer {
  readonly world: World
  readonly #upstream: PlannedUpstream
  readonly #secret: string

  private constructor(world: World, upstream: PlannedUpstream, secret: string) {
    this.world = world
    this.#upstream = upstream
    this.#secret = secret
  }

  static async start(): Promise<AnswerFuzzer> {
    const upstream = await PlannedUpstream.start()
    const world = await startWorld({
      POSTERN_UPSTREAM_URL: upstream.url,
      POSTERN_UPSTREAM_HEADERS_TIMEOUT_MS: String(PATIENCE_MS),
      POSTERN_UPSTREAM_BODY_IDLE_TIMEOUT_MS: String(PATIENCE_MS),
      POSTERN_UPSTREAM_TOTAL_TIMEOUT_MS: '3000',
      // Few connections, so that remains of one response would meet the next request.
      POSTERN_UPSTREAM_CONNECTIONS: String(2 * AT_ONCE),
      POSTERN_UPSTREAM_CIRCUIT_FAILURES: '1000000',
      POSTERN_LOG_LEVEL: 'warn',
    })
    const { secret } = await world.issue()
    return new AnswerFuzzer(world, upstream, secret)
  }

  async run(runs: number, firstSeed: number): Promise<AnswerFuzzReport> {
    const outcomes = new Map<string, number>()
    const breaches: AnswerBreach[] = []
    let seed = firstSeed
    const work = async () => {
      while (seed < firstSeed + runs) {
        const own = seed++
        const client: ClientVersion = chance(own ^ 0x5eed)() < 0.2 ? '1.0' : '1.1'
        const plan = answerPlan(own, `s${own}`)
        const { outcome, breach, seen } = await this.#settle(`s${own}`, plan, client)
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
        if (breach !== null) breaches.push({ seed: own, what: breach, plan, client, seen })
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
    return { sent: runs, outcomes, breaches }
  }

  /** One response, and then a valid one on the same connection if it is still open, which must arrive unchanged. */
  async exchange(id: string, plan: AnswerPlan, version: ClientVersion): Promise<Exchange> {
    this.#upstream.plans.set(id, plan)
    const client = new StrictClient(this.world.gateway.urls.gateway)
    try {
      const answer = await client.send(this.#request(id, version))
      const seen = { ...answer, late: this.#isLate(id) }
      const breach = breachOf(plan, seen) ?? (await this.#afterwards(client, id, seen, version))
      return { outcome: outcomeOf(seen), breach, seen: seen.bytes.toString('latin1') }
    } finally {
      client.destroy()
      this.#upstream.forget(id)
    }
  }

  /** Whether the process is alive and has logged no error. */
  faults(): string[] {
    const { child, log } = this.world.gateway.process
    const loggedErrors = log.filter(line => Number(line['level']) >= 50).map(line => JSON.stringify(line))
    return child.exitCode === null && child.signalCode === null ? loggedErrors : ['it ended', ...loggedErrors]
  }

  async stop(): Promise<void> {
    await Promise.all([this.world.stop(), this.#upstream.stop()])
  }

  /** The machine may cause a timeout: it counts only if it repeats. */
  async #settle(id: string, plan: AnswerPlan, version: ClientVersion): Promise<Exchange> {
    let exchange = await this.exchange(id, plan, version)
    for (let again = 0; again < 2 && exchange.breach?.includes('504'); again++) {
      exchange = await this.exchange(id, plan, version)
    }
    return exchange
  }

  async #afterwards(
    client: StrictClient,
    id: string,
    seen: Seen,
    version: ClientVersion,
  ): Promise<string | null> {
    if (isLast(seen, version)) {
      client.destroy()
      const fresh = new StrictClient(this.world.gateway.urls.gateway)
      const answer = await fresh.send(this.#request(CLEAN + id, '1.1'))
      fresh.destroy()
      return this.#breachOfHonest(answer, id, 'on a new connection')
    }
    return this.#breachOfHonest(
      await client.send(this.#request(CLEAN + id, '1.1')),
      id,
      'on the same connection',
    )
  }

  #breachOfHonest(seen: Seen, id: string, where: string): string | null {
    const read = readResponse(seen.bytes)
    const fine =
      read.kind === 'whole' &&
      read.end === seen.bytes.length &&
      read.head.status === 200 &&
      read.body.toString() === `"${CLEAN}${id}"`
    if (fine) return null
    const before = this.#upstream.before.get(CLEAN + id) ?? 'none that reached the upstream'
    const got = JSON.stringify(seen.bytes.toString('latin1'))
    return `the next request ${where} (the upstream’s carried before it: ${before}) got ${seen.ended} ${got}`
  }

  #isLate(id: string): boolean {
    return (this.#upstream.tookMs.get(id) ?? Number.POSITIVE_INFINITY) > PATIENCE_MS / 2
  }

  #request(id: string, version: ClientVersion): string {
    return `GET ${TARGET} HTTP/${version}\r\nHost: gw\r\nAuthorization: Bearer ${this.#secret}\r\nX-Request-Id: ${id}\r\n\r\n`
  }
}

/** Whether the connection serves no further request. */
function isLast({ bytes }: Seen, version: ClientVersion): boolean {
  const read = readResponse(bytes)
  return (
    read.kind !== 'whole' || version === '1.0' || valuesOf(read.head.fields, 'connection').includes('close')
  )
}

function outcomeOf({ bytes, ended }: Seen): string {
  const read = readResponse(bytes)
  if (read.kind === 'whole') return String(read.head.status)
  return read.kind === 'until_close' && ended === 'closed' ? `${read.head.status} by close` : 'cut'
}
