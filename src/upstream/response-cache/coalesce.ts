import type { FastifyReply } from 'fastify'
import type { Permit } from '../../domain/authorize.ts'
import type { Clock } from '../../domain/clock.ts'
import type { Metrics } from '../../observability/metrics.ts'
import type { ForwardContext } from '../forward.ts'
import { EXCHANGE, type UpstreamDispatcher } from '../pool/dispatcher.ts'
import type { Refuse } from '../respond.ts'
import type { JudgeAnswer } from '../response-policy.ts'
import { compileQuestion, OWN_VALIDATORS, type Question, validatorsOf, withValidators } from './cache-key.ts'
import { type KeptAnswer, validatorsFor } from './cached-response.ts'
import { Flight, type FlightParts } from './coalesced-request.ts'
import { sharingCountsOf } from './coalescing-counts.ts'
import { type Directives, directivesOf, hasValidator, wantsFresher } from './freshness.ts'
import type { AnswerCache } from './response-cache.ts'
import { Keeping } from './storing.ts'
import { Asker } from './waiter.ts'
import { giveKept } from './write-cached.ts'

export interface SharingDeps {
  readonly dispatcher: UpstreamDispatcher
  /** Names of the client's headers that go on. */
  readonly requestHeaders: readonly string[]
  /** What the upstream is told when it is asked for this one. */
  readonly headersFor: (asker: Asker) => Record<string, string>
  /** Path and query at the upstream. */
  readonly targetOf: (permit: Permit) => string
  readonly judge: JudgeAnswer
  readonly refuse: Refuse
  readonly metrics: Metrics
  readonly clock: Clock
  /** Null where nothing is kept. */
  readonly cache: AnswerCache | null
  readonly askAlone: (asker: Asker) => void
}

/** Who asks what is known gets that; who asks what is being asked already waits for that answer. Whoever comes here holds a permit of their own. */
export class SharedAnswers {
  readonly #deps: SharingDeps
  readonly #questionOf: Question
  readonly #parts: Omit<FlightParts, 'landed' | 'keeping'>
  /** As many as requests are in flight at most. */
  readonly #flights = new Map<string, Flight>()

  constructor(deps: SharingDeps) {
    const { judge, refuse, metrics, askAlone, dispatcher } = deps
    this.#deps = deps
    this.#questionOf = compileQuestion(deps.requestHeaders)
    const nowMs = () => dispatcher.nowMs()
    this.#parts = { judge, refuse, counts: sharingCountsOf(metrics), nowMs, askAlone }
  }

  ask(reply: FastifyReply, permit: Permit, context: ForwardContext): void {
    const client = reply.request.raw.headers
    const question = this.#questionOf(permit, client, context.forwarded)
    const said = client['cache-control']
    const wished = said === undefined ? NOTHING_WISHED : directivesOf(said)
    const cache = wished.has('no-store') ? null : this.#deps.cache
    const kept = cache?.find(permit.grant.workspaceId, question)
    const nowMs = this.#deps.dispatcher.nowMs()
    if (kept !== undefined && isUsable(kept, nowMs, wished)) {
      context.seen.shared = 'cache'
      this.#parts.counts.cache.inc()
      giveKept(reply, context.seen, kept, Math.floor((nowMs - kept.bornAtMs) / 1000))
      return
    }
    const asker = new Asker(reply, permit, context, nowMs)
    // One that cannot be asked about is as good as none.
    const stale = kept !== undefined && hasValidator(kept.upstream) ? kept : undefined
    const validators = stale === undefined ? validatorsOf(client) : OWN_VALIDATORS
    const flight = this.#flights.get(question + validators)
    if (flight === undefined) this.#begin(question, validators, asker, cache, stale)
    else flight.join(asker)
  }

  #begin(
    question: string,
    validators: string,
    asker: Asker,
    cache: AnswerCache | null,
    stale: KeptAnswer | undefined,
  ): void {
    const { dispatcher, targetOf, headersFor, clock } = this.#deps
    const { workspaceId } = asker.permit.grant
    const headers = headersFor(asker)
    if (stale !== undefined) withValidators(headers, validatorsFor(stale))
    const exchange = dispatcher.open({ workspaceId, path: targetOf(asker.permit), headers })
    const keeping = cache === null ? null : new Keeping(cache, clock, { workspaceId, question, stale })
    const name = question + validators
    const landed = (landing: Flight) => {
      if (this.#flights.get(name) === landing) this.#flights.delete(name)
    }
    const flight = new Flight(exchange, { ...this.#parts, keeping, landed })
    this.#flights.set(name, flight)
    asker.leads = true
    flight.join(asker)
    dispatcher.request({ headers: { [EXCHANGE]: exchange } }, flight.onAnswer)
  }
}

const NOTHING_WISHED = directivesOf(undefined)

function isUsable(kept: KeptAnswer, nowMs: number, wished: Directives): boolean {
  if (nowMs >= kept.freshUntilMs) return false
  const times = { ageMs: nowMs - kept.bornAtMs, freshForMs: kept.freshUntilMs - nowMs }
  return wished.size === 0 || !wantsFresher(wished, times)
}
