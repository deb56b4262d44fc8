import { type DenialReason, denialRow } from '../domain/denial.ts'
import type { TierName } from '../domain/lookup.ts'
import {
  ABORT_PHASES,
  classLabel,
  codeLabel,
  DECISION_REASONS,
  LOOKUP_TIERS,
  type Metrics,
  REJECTION_REASONS,
} from './metrics.ts'
import type { RequestObservation } from './request-observer.ts'
import { childrenBy, type Distribution, type Tally } from './tally.ts'
import type { TracedDistribution } from './traced-distribution.ts'

/** The one that is allowed has its name in metrics; each more would be a series per route. */
const COUNTED_METHOD = 'GET'

/** As much of a route as its counters are told apart by. */
export interface ObservedRoute {
  readonly name: string
  readonly answeredBy?: 'gateway' | 'upstream' | undefined
}

/** The counters that each request moves, their children looked up once. */
export class RequestCounters {
  readonly #metrics: Metrics
  readonly #routes = new Map<string, RouteCounters>()
  readonly #overhead: Distribution
  readonly #decisions: ReadonlyMap<string, Tally>
  readonly #authDurations: Record<TierName, Distribution>

  /** Starts at zero what alerts ask the rate of, so that they fire on the first of its kind. */
  constructor(metrics: Metrics, routes: readonly ObservedRoute[]) {
    this.#metrics = metrics
    this.#overhead = metrics.overheadDuration.child({})
    this.#decisions = new Map(
      DECISION_REASONS.map(reason => [
        reason,
        metrics.decisions.child({ decision: reason === 'ok' ? 'permitted' : 'denied', reason }),
      ]),
    )
    this.#authDurations = childrenBy(LOOKUP_TIERS, tier => metrics.authDuration.child({ tier }))
    for (const phase of ABORT_PHASES) metrics.clientAborts.inc({ phase }, 0)
    for (const reason of REJECTION_REASONS) metrics.rejected.inc({ reason }, 0)
    for (const route of routes) this.#route(route.name).startAtZero(route.answeredBy ?? 'upstream')
  }

  /** @param reason null for a permit @param tier null where none was asked */
  decided(reason: DenialReason | null, tier: TierName | null, seconds: number): void {
    if (reason === null || denialRow(reason).countedAs === 'decision') {
      this.#decisions.get(reason ?? 'ok')?.inc()
    }
    if (tier !== null) this.#authDurations[tier].observe(seconds)
  }

  answered(seen: RequestObservation, status: number, seconds: number): void {
    this.#route(seen.route).answered(seen, status, seconds)
    this.#overhead.observe(Math.max(0, seconds - seen.upstreamWaitMs / 1000))
  }

  aborted(phase: (typeof ABORT_PHASES)[number]): void {
    this.#metrics.clientAborts.inc({ phase })
  }

  /** However it ended. */
  ended({ route, responseBytes, reason }: RequestObservation): void {
    this.#route(route).sent(responseBytes)
    if (reason !== null && denialRow(reason).countedAs === 'rejected') this.#metrics.rejected.inc({ reason })
  }

  refusedByParser(reason: DenialReason, status: number): void {
    this.#metrics.requests.inc({
      route: 'none',
      method: '_OTHER',
      code: String(status),
      source: 'gateway',
    })
    this.#metrics.rejected.inc({ reason })
  }

  #route(name: string): RouteCounters {
    let counters = this.#routes.get(name)
    if (counters === undefined) {
      counters = new RouteCounters(this.#metrics, name)
      this.#routes.set(name, counters)
    }
    return counters
  }
}

type Source = RequestObservation['source']

/** The counters of one route; what a client may bring about begins with its first. */
class RouteCounters {
  readonly #metrics: Metrics
  readonly #route: string
  readonly #answers = new Map<number, Tally>()
  readonly #durations = new Map<number, TracedDistribution>()
  readonly #bytes: Tally

  constructor(metrics: Metrics, route: string) {
    this.#metrics = metrics
    this.#route = route
    this.#bytes = metrics.responseBytes.child({ route })
  }

  /** What an error ratio is made of. */
  startAtZero(answeredBy: Source): void {
    this.#answer(COUNTED_METHOD, 200, answeredBy)
    for (const status of [500, 503]) this.#answer(COUNTED_METHOD, status, 'gateway')
    if (answeredBy === 'upstream') {
      for (const status of [502, 503, 504]) this.#answer(COUNTED_METHOD, status, 'upstream')
    }
    this.#duration(200)
  }

  answered({ method, source, trace }: RequestObservation, status: number, seconds: number): void {
    this.#answer(method, status, source).inc()
    this.#duration(status).observe(seconds, trace?.recorded === true ? trace.traceId : null)
  }

  sent(bytes: number): void {
    this.#bytes.inc(bytes)
  }

  #answer(anyMethod: string, status: number, source: Source): Tally {
    const isCounted = anyMethod === COUNTED_METHOD
    // A number, because a text would be made anew for each request.
    const key = status * 4 + (isCounted ? 0 : 2) + (source === 'gateway' ? 0 : 1)
    let tally = this.#answers.get(key)
    if (tally === undefined) {
      const method = isCounted ? COUNTED_METHOD : '_OTHER'
      // Our own statuses are a closed set.
      const code = source === 'gateway' ? String(status) : codeLabel(status)
      tally = this.#metrics.requests.child({ route: this.#route, method, code, source })
      this.#answers.set(key, tally)
    }
    return tally
  }

  #duration(status: number): TracedDistribution {
    let duration = this.#durations.get(status)
    if (duration === undefined) {
      const labels = { route: this.#route, code_class: classLabel(status) }
      duration = this.#metrics.requestDuration.child(labels)
      this.#durations.set(status, duration)
    }
    return duration
  }
}
