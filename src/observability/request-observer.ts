import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Verdict } from '../domain/authorize.ts'
import type { Clock } from '../domain/clock.ts'
import { type DenialReason, denialRow } from '../domain/denial.ts'
import { type Lookup, OTHER_WORKSPACES, type TierName } from '../domain/key/key-record.ts'
import type { AccessLog } from './access-log.ts'
import type { RequestDurationHandle } from './metrics/metric-handles.ts'
import {
  ABORT_PHASES,
  type CounterHandle,
  classLabel,
  codeLabel,
  DECISION_REASONS,
  type HistogramHandle,
  handlesBy,
  LOOKUP_TIERS,
  type Metrics,
  REJECTION_REASONS,
} from './metrics/metrics.ts'
import { type RequestObservation, readTraceId, type Tracing } from './request-observation.ts'

/** Methods that keep their name in logs and traces. */
const METHODS = new Set(['GET', 'HEAD', 'OPTIONS', 'POST'])

interface RequestObserverParts {
  readonly metrics: Metrics
  readonly accessLog: AccessLog
  /** Null if tracing is disabled. */
  readonly tracing: Tracing | null
  readonly routes: readonly ObservedRoute[]
  /** Null if `metrics.workspaces` names no workspace. */
  readonly workspaces: WorkspaceRequestCounts | null
  /** Counts the request for its key. */
  readonly recordUsage: RecordUsage
}

/** @param aborted whether the client disconnected before the end of its response */
export type RecordUsage = (seen: RequestObservation, status: number, aborted: boolean) => void

/** Counts and logs each request once, whether it is completed, rejected or aborted. */
export class RequestObserver {
  inFlight = 0
  /** Requests in flight by workspace, counted once the workspace of a request is known. */
  readonly #inFlightByWorkspace = new Map<string, number>()
  readonly #counters: RequestCounters
  readonly #accessLog: AccessLog
  readonly #tracing: Tracing | null
  readonly #workspaces: WorkspaceRequestCounts | null
  readonly #recordUsage: RecordUsage

  constructor(parts: RequestObserverParts) {
    const { metrics, accessLog, tracing, routes, workspaces, recordUsage } = parts
    this.#counters = new RequestCounters(metrics, routes)
    this.#accessLog = accessLog
    this.#tracing = tracing
    this.#workspaces = workspaces
    this.#recordUsage = recordUsage
    metrics.requestsInFlight.onCollect(gauge => gauge.set(this.inFlight))
  }

  /** @param method of the client, which in check mode is not that of the message */
  begin(request: IncomingMessage, method = request.method ?? ''): RequestObservation {
    const { headers } = request
    const trace = this.#tracing === null ? null : this.#tracing.begin(request)
    const observation: RequestObservation = {
      method: METHODS.has(method) ? method : '_OTHER',
      startedAtMs: performance.now(),
      lookupStartedAtMs: 0,
      requestId: '',
      route: 'none',
      phase: 'auth',
      reason: null,
      keyId: null,
      workspaceId: null,
      clientAddress: '',
      tier: null,
      source: 'gateway',
      upstreamWaitMs: 0,
      responseBytes: 0,
      isInFlight: true,
      fault: null,
      upstreamStatus: null,
      truncated: false,
      shared: null,
      traceId: trace === null ? readTraceId(headers) : trace.traceId,
      trace,
    }
    this.inFlight++
    return observation
  }

  countInFlight(workspaceId: string): number {
    return this.#inFlightByWorkspace.get(workspaceId) ?? 0
  }

  #countInFlight(workspaceId: string, change: 1 | -1): void {
    const count = this.countInFlight(workspaceId) + change
    if (count === 0) this.#inFlightByWorkspace.delete(workspaceId)
    else this.#inFlightByWorkspace.set(workspaceId, count)
  }

  /** Records the start of the key lookup, which only traces need. */
  lookingUp(observation: RequestObservation): void {
    if (observation.trace !== null) observation.lookupStartedAtMs = performance.now()
  }

  lookedUp(observation: RequestObservation, lookup: Lookup): void {
    if ('tier' in lookup) observation.tier = lookup.tier
    if (lookup.kind === 'found') {
      observation.keyId = lookup.grant.id
      observation.workspaceId = lookup.grant.workspaceId
      // The client may have disconnected during the lookup.
      if (observation.isInFlight) this.#countInFlight(observation.workspaceId, 1)
    }
    observation.trace?.lookedUp(observation.tier, observation.lookupStartedAtMs)
  }

  /** An authorization decision, once for each request that reached it. */
  decided({ tier, startedAtMs }: RequestObservation, verdict: Verdict): void {
    const reason = verdict.kind === 'permitted' ? null : verdict.reason
    this.#counters.decided(reason, tier, (performance.now() - startedAtMs) / 1000)
  }

  /** A request that Node's parser rejected: it has no response to observe. */
  rejectedByParser(reason: DenialReason, requestId: string, status: number): void {
    this.#counters.rejectedByParser(reason, status)
    this.#accessLog.writeUnparsed(requestId, status, reason)
  }

  /** The response has been handed over to Node, or is a delayed denial: it no longer counts as in flight. */
  handedOver(seen: RequestObservation): void {
    if (!seen.isInFlight) return
    seen.isInFlight = false
    this.inFlight--
    if (seen.workspaceId !== null) this.#countInFlight(seen.workspaceId, -1)
  }

  /** The request was completed or aborted. @param response already closed */
  end(seen: RequestObservation, response: ServerResponse): void {
    this.handedOver(seen)
    const finished = response.writableFinished
    // In check mode a proxy may get another status than its client.
    const status = seen.reason === null ? response.statusCode : denialRow(seen.reason).status
    const durationMs = performance.now() - seen.startedAtMs
    if (seen.workspaceId !== null) this.#workspaces?.count(seen.workspaceId)
    const aborted = !finished && !seen.truncated
    if (finished) this.#counters.completed(seen, status, durationMs / 1000)
    else if (aborted) this.#counters.aborted(seen.phase)
    else this.#counters.brokenOff(seen, durationMs / 1000)
    this.#counters.ended(seen)
    this.#recordUsage(seen, status, aborted)
    const { route, method, reason } = seen
    seen.trace?.end({ route, method, status, aborted, reason })
    this.#accessLog.write(seen, { status, durationMs, aborted })
  }
}

/** The only method with its own label value: each further one would add a series per route. */
const COUNTED_METHOD = 'GET'

/** The part of a route that its counters need. */
interface ObservedRoute {
  readonly name: string
  readonly answeredBy?: 'gateway' | 'upstream' | undefined
}

/** The counters that each request increments; their handles are resolved once. */
class RequestCounters {
  readonly #metrics: Metrics
  readonly #routes = new Map<string, RouteCounters>()
  readonly #overhead: HistogramHandle
  readonly #decisions: ReadonlyMap<string, CounterHandle>
  readonly #authDurations: Record<TierName, HistogramHandle>

  /** Starts every counter that alerts use at zero, so that they fire on the first increment. */
  constructor(metrics: Metrics, routes: readonly ObservedRoute[]) {
    this.#metrics = metrics
    this.#overhead = metrics.overheadDuration.handle({})
    this.#decisions = new Map(
      DECISION_REASONS.map(reason => [
        reason,
        metrics.decisions.handle({ decision: reason === 'ok' ? 'permitted' : 'denied', reason }),
      ]),
    )
    this.#authDurations = handlesBy(LOOKUP_TIERS, tier => metrics.authDuration.handle({ tier }))
    for (const phase of ABORT_PHASES) metrics.clientAborts.inc({ phase }, 0)
    for (const reason of REJECTION_REASONS) metrics.rejected.inc({ reason }, 0)
    for (const route of routes) this.#route(route.name).startAtZero(route.answeredBy ?? 'upstream')
  }

  /** @param reason null if permitted @param tier null if no tier returned a result @param seconds until the decision */
  decided(reason: DenialReason | null, tier: TierName | null, seconds: number): void {
    if (reason === null || denialRow(reason).countedAs === 'decision') {
      this.#decisions.get(reason ?? 'ok')?.inc()
    }
    if (tier !== null) this.#authDurations[tier].observe(seconds)
  }

  completed(seen: RequestObservation, status: number, seconds: number): void {
    this.#route(seen.route).completed(seen, status, seconds)
    this.#overhead.observe(Math.max(0, seconds - seen.upstreamWaitMs / 1000))
  }

  /** The client got the upstream's status, but no complete response: an objective must count it as an error. */
  brokenOff(seen: RequestObservation, seconds: number): void {
    // The gateway gave its connection to another workspace.
    if (seen.fault === 'preempted')
      this.#route(seen.route).completed({ ...seen, source: 'gateway' }, 503, seconds)
    else this.#route(seen.route).completed(seen, 502, seconds)
  }

  aborted(phase: (typeof ABORT_PHASES)[number]): void {
    this.#metrics.clientAborts.inc({ phase })
  }

  /** Completed or aborted. */
  ended({ route, responseBytes, reason }: RequestObservation): void {
    this.#route(route).sent(responseBytes)
    if (reason !== null && denialRow(reason).countedAs === 'rejected') this.#metrics.rejected.inc({ reason })
  }

  rejectedByParser(reason: DenialReason, status: number): void {
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

type StatusSource = RequestObservation['source']

/** The counters of one route. Series of rare statuses and methods start with their first request. */
class RouteCounters {
  readonly #metrics: Metrics
  readonly #route: string
  readonly #responses = new Map<number, CounterHandle>()
  readonly #durations = new Map<number, RequestDurationHandle>()
  readonly #bytes: CounterHandle

  constructor(metrics: Metrics, route: string) {
    this.#metrics = metrics
    this.#route = route
    this.#bytes = metrics.responseBytes.handle({ route })
  }

  /** Starts the series that error ratios are computed from. */
  startAtZero(answeredBy: StatusSource): void {
    this.#response(COUNTED_METHOD, 200, answeredBy)
    for (const status of [500, 503]) this.#response(COUNTED_METHOD, status, 'gateway')
    if (answeredBy === 'upstream') {
      for (const status of [502, 503, 504]) this.#response(COUNTED_METHOD, status, 'upstream')
    }
    this.#duration(200)
  }

  completed({ method, source, trace }: RequestObservation, status: number, seconds: number): void {
    this.#response(method, status, source).inc()
    this.#duration(status).observe(seconds, trace?.recorded === true ? trace.traceId : null)
  }

  sent(bytes: number): void {
    this.#bytes.inc(bytes)
  }

  #response(anyMethod: string, status: number, source: StatusSource): CounterHandle {
    const isCounted = anyMethod === COUNTED_METHOD
    // A number, because a string would be built for each request.
    const key = status * 4 + (isCounted ? 0 : 2) + (source === 'gateway' ? 0 : 1)
    let responses = this.#responses.get(key)
    if (responses === undefined) {
      const method = isCounted ? COUNTED_METHOD : '_OTHER'
      // The gateway's own statuses are a closed set.
      const code = source === 'gateway' ? String(status) : codeLabel(status)
      responses = this.#metrics.requests.handle({ route: this.#route, method, code, source })
      this.#responses.set(key, responses)
    }
    return responses
  }

  #duration(status: number): RequestDurationHandle {
    let duration = this.#durations.get(status)
    if (duration === undefined) {
      const labels = { route: this.#route, code_class: classLabel(status) }
      duration = this.#metrics.requestDuration.handle(labels)
      this.#durations.set(status, duration)
    }
    return duration
  }
}

/** How long after a request of an unnamed workspace `postern_workspace_series_folded` stays 1. */
const FOLDED_FOR_MS = 300_000

/**
 * Counts requests of the workspaces that the operator named, and of all others together. The number of series depends on the
 * names, not on the number of workspaces.
 */
class WorkspaceRequestCounts {
  readonly #metrics: Metrics
  readonly #named: ReadonlySet<string>
  readonly #clock: Clock
  #foldedAtMs = Number.NEGATIVE_INFINITY

  constructor(metrics: Metrics, named: readonly string[], clock: Clock) {
    this.#metrics = metrics
    this.#named = new Set(named)
    this.#clock = clock
    for (const workspace of [...named, OTHER_WORKSPACES]) metrics.workspaceRequests.inc({ workspace }, 0)
    metrics.workspacesFolded.onCollect(gauge => gauge.set(this.#isFolding() ? 1 : 0))
  }

  /** @param workspaceId from the key's record, never from the request */
  count(workspaceId: string): void {
    const isNamed = this.#named.has(workspaceId)
    if (!isNamed) this.#foldedAtMs = this.#clock.monotonicMs()
    this.#metrics.workspaceRequests.inc({ workspace: isNamed ? workspaceId : OTHER_WORKSPACES })
  }

  #isFolding(): boolean {
    return this.#clock.monotonicMs() - this.#foldedAtMs < FOLDED_FOR_MS
  }
}

/** @returns null if no workspace is named: then no metric has a workspace as a label */
export function createWorkspaceRequestCounts(
  metrics: Metrics,
  named: readonly string[],
  clock: Clock,
): WorkspaceRequestCounts | null {
  return named.length === 0 ? null : new WorkspaceRequestCounts(metrics, named, clock)
}
