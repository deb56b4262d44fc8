import { type Denial, denied } from '../../domain/denial.ts'
import type { WholeAnswer } from '../../http/buffered-response.ts'
import { denialReasonOf, UpstreamFailure } from '../failure.ts'
import type { UpstreamExchange } from '../pool/exchange.ts'
import { ClientBody, deliverAnswer, type Refuse, RejectionCollector, rejectionOf } from '../respond.ts'
import type { JudgeAnswer, Judgement } from '../response-policy.ts'
import { isForAll } from './cache-key.ts'
import type { KeptAnswer } from './cached-response.ts'
import type { SharingCounts } from './coalescing-counts.ts'
import { Collector, MAX_SHARED_BYTES } from './collector.ts'
import type { Freshness } from './freshness.ts'
import type { Keeping } from './storing.ts'
import type { Asker } from './waiter.ts'
import { give, sharedAnswer } from './whole.ts'
import { giveKept } from './write-cached.ts'

export interface FlightParts {
  readonly judge: JudgeAnswer
  readonly refuse: Refuse
  readonly counts: SharingCounts
  readonly nowMs: () => number
  /** Asks for this one alone. */
  readonly askAlone: (asker: Asker) => void
  /** Null where nothing is kept. */
  readonly keeping: Keeping | null
  /** Nobody may join any more. */
  readonly landed: (flight: Flight) => void
}

/**
 * One request to the upstream for all who ask the same. Whoever asks when its answer has begun comes too late: what it is
 * given was made after it asked, but for the time that the upstream takes. Each is answered with the whole of it, or
 * refused; of one that is too long to be held, the first gets it as it comes, and the others ask for themselves.
 */
export class Flight {
  readonly #exchange: UpstreamExchange
  readonly #parts: FlightParts
  readonly #askers = new Set<Asker>()
  #freshness: Freshness | null = null

  constructor(exchange: UpstreamExchange, parts: FlightParts) {
    this.#exchange = exchange
    this.#parts = parts
  }

  join(asker: Asker): void {
    this.#askers.add(asker)
    asker.waitFor(this)
  }

  /** The client of one has left. The others do not notice; with the last the upstream need not go on either. */
  leave(asker: Asker): void {
    this.#askers.delete(asker)
    if (this.#askers.size > 0) return
    this.#parts.landed(this)
    this.#exchange.abort()
  }

  /** The upstream has begun to answer, or never will. */
  readonly onAnswer = (failure: UpstreamFailure | null): void => {
    this.#parts.landed(this)
    const nowMs = this.#parts.nowMs()
    for (const { seen, sinceMs } of this.#askers) seen.upstreamWaitMs = nowMs - sinceMs
    try {
      if (failure !== null) this.#refuseAll(failure)
      else this.#answered()
    } catch (error) {
      this.#endAll(() => {
        throw error
      })
    }
  }

  #answered(): void {
    const { statusCode, headers } = this.#exchange
    const { keeping } = this.#parts
    this.#freshness = keeping?.freshnessOf(statusCode, headers) ?? null
    if (statusCode === 304 && keeping?.revalidates) this.#giveUnchanged(keeping)
    else if (this.#freshness !== null || this.#isForAll()) this.#answerAll()
    else this.#deliverToFirst()
  }

  /** A failure is: those who waited would but meet the same. */
  #isForAll(): boolean {
    const { statusCode, headers } = this.#exchange
    return this.#askers.size > 1 && (statusCode >= 500 || isForAll(headers))
  }

  #answerAll(): void {
    const { statusCode, headers } = this.#exchange
    const judgement = this.#parts.judge(statusCode, headers)
    if (judgement.kind === 'denied') this.#refuseAll(judgement)
    else if (judgement.kind === 'reject') this.#reject(judgement.retryAfter)
    else if (!judgement.hasBody) this.#giveAll(sharedAnswer(statusCode, judgement.headers, null))
    else if (Number(headers['content-length'] ?? 0) > MAX_SHARED_BYTES) this.#deliverToFirst()
    else this.#collect(judgement)
  }

  #collect(judgement: Extract<Judgement, { kind: 'pass' }>): void {
    const { headers } = judgement
    this.#exchange.deliverTo(
      new Collector({
        whole: body => this.#giveWhole(headers, body),
        tooLong: begun => this.#streamToFirst(judgement, begun),
        cut: failure => this.#refuseAll(failure ?? denied('upstream_error')),
      }),
    )
  }

  #giveWhole(headers: Readonly<Record<string, string>>, body: Buffer): void {
    const { keeping } = this.#parts
    if (keeping !== null && this.#freshness !== null) {
      this.#giveKept(keeping.keep(this.#exchange.headers, headers, body, this.#freshness))
    } else this.#giveAll(sharedAnswer(this.#exchange.statusCode, headers, body))
  }

  /** What was kept is the answer still; or it cannot be told what is, and each has to ask. */
  #giveUnchanged(keeping: Keeping): void {
    const kept = keeping.refresh(this.#exchange.headers, this.#parts.judge)
    this.#exchange.discard()
    if (kept !== null) {
      this.#giveKept(kept, 'revalidated')
    } else {
      const askers = [...this.#askers]
      this.#askers.clear()
      for (const asker of askers) this.#askAlone(asker)
    }
  }

  /** Each by what it knows already: they may have asked with validators of their own. */
  #giveKept(kept: KeptAnswer, how?: 'revalidated'): void {
    this.#exchange.discard()
    this.#endAll(({ reply, seen }) => giveKept(reply, seen, kept, null), how)
  }

  #reject(retryAfter: string | null): void {
    const { statusCode, headers } = this.#exchange
    const answer = (body: Buffer | null) => this.#giveAll(rejectionOf(statusCode, headers, retryAfter, body))
    this.#exchange.deliverTo(new RejectionCollector(answer))
  }

  /** As if it had asked alone, which it mostly has. */
  #deliverToFirst(): void {
    const { judge, refuse } = this.#parts
    this.#leaveToFirst(({ reply, seen }) => deliverAnswer(reply, seen, this.#exchange, judge, refuse))
  }

  #streamToFirst(judgement: Extract<Judgement, { kind: 'pass' }>, begun: Buffer): boolean {
    let goesOn = true
    this.#leaveToFirst(({ reply, seen }) => {
      const parts = { reply, seen, exchange: this.#exchange, judgement, refuse: this.#parts.refuse }
      const body = new ClientBody(parts)
      seen.source = 'upstream'
      seen.phase = 'streaming'
      this.#exchange.deliverTo(body)
      goesOn = body.write(begun)
    })
    return goesOn
  }

  /** It stays the one for whom the exchange goes on; its leaving still ends it. */
  #leaveToFirst(deliver: (first: Asker) => void): void {
    const [first, ...others] = this.#askers
    for (const other of others) {
      this.#askers.delete(other)
      this.#askAlone(other)
    }
    if (first === undefined) return
    this.#tell(first)
    shielded(first, deliver)
  }

  #askAlone(asker: Asker): void {
    asker.release()
    this.#parts.counts.unshared.inc()
    shielded(asker, this.#parts.askAlone)
  }

  #giveAll(answer: WholeAnswer): void {
    this.#exchange.discard()
    this.#endAll(asker => give(asker, answer))
  }

  #refuseAll(why: UpstreamFailure | Denial): void {
    this.#exchange.discard()
    const denial = why instanceof UpstreamFailure ? denied(denialReasonOf(why.kind)) : why
    this.#endAll(({ reply, seen }) => {
      if (why instanceof UpstreamFailure) seen.fault = why.kind
      this.#parts.refuse(reply, seen, denial)
    })
  }

  #endAll(end: (asker: Asker) => void, how?: 'revalidated'): void {
    const askers = [...this.#askers]
    this.#askers.clear()
    for (const asker of askers) {
      asker.release()
      this.#tell(asker, how)
      shielded(asker, end)
    }
  }

  /** Traces, log and figures of one who is answered by this flight. */
  #tell({ seen, leads }: Asker, how?: 'revalidated'): void {
    if (leads) seen.trace?.forwarded(this.#exchange.statusCode, null)
    const result = how ?? (leads ? 'upstream' : 'joined')
    if (result !== 'upstream') seen.shared = result
    this.#parts.counts[result].inc()
  }
}

/** What goes wrong with one is nobody else's; and thrown on within undici's parser, it would end the process. */
function shielded(asker: Asker, answer: (asker: Asker) => void): void {
  try {
    answer(asker)
  } catch (error) {
    asker.seen.fault = `An answer of the upstream could not be passed on: ${String(error)}`
    asker.reply.raw.destroy()
  }
}
