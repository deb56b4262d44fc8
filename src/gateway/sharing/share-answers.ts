import type { FastifyReply } from 'fastify'
import type { Permit } from '../../domain/authorize.ts'
import type { Metrics } from '../../observability/metrics.ts'
import type { ForwardContext } from '../forward.ts'
import type { Refuse } from '../upstream-delivery.ts'
import { EXCHANGE, type UpstreamDispatcher } from '../upstream-dispatcher.ts'
import type { JudgeAnswer } from '../upstream-response.ts'
import { Asker } from './asker.ts'
import { Flight, type FlightParts } from './flight.ts'
import { compileQuestion, type Question, validatorsOf } from './question.ts'
import { sharingCountsOf } from './sharing-counts.ts'

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
  readonly askAlone: (asker: Asker) => void
}

/** Who asks what is being asked already waits for that answer. Whoever comes here holds a permit of their own. */
export class SharedAnswers {
  readonly #deps: SharingDeps
  readonly #questionOf: Question
  readonly #parts: Omit<FlightParts, 'landed'>
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
    const asker = new Asker(reply, permit, context, this.#deps.dispatcher.nowMs())
    const question = this.#questionOf(permit, client, context.forwarded) + validatorsOf(client)
    const flight = this.#flights.get(question)
    if (flight === undefined) this.#begin(question, asker)
    else flight.join(asker)
  }

  #begin(question: string, asker: Asker): void {
    const { dispatcher, targetOf, headersFor } = this.#deps
    const exchange = dispatcher.open(targetOf(asker.permit), headersFor(asker))
    const landed = (landing: Flight) => {
      if (this.#flights.get(question) === landing) this.#flights.delete(question)
    }
    const flight = new Flight(exchange, { ...this.#parts, landed })
    this.#flights.set(question, flight)
    asker.leads = true
    flight.join(asker)
    dispatcher.request({ headers: { [EXCHANGE]: exchange } }, flight.onAnswer)
  }
}
