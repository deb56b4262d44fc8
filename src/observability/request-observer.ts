import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Verdict } from '../domain/authorize.ts'
import { type DenialReason, denialRow } from '../domain/denial.ts'
import type { Lookup } from '../domain/key/key-record.ts'
import type { AccessLog } from './access-log.ts'
import type { Metrics } from './metrics/metrics.ts'
import { type ObservedRoute, RequestCounters, type WorkspaceRequestCounts } from './request-counters.ts'
import type { RequestObservation } from './request-observation.ts'
import { readTraceId, type Tracing } from './tracing.ts'

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
    this.#counters.ended(seen)
    this.#recordUsage(seen, status, aborted)
    const { route, method, reason } = seen
    seen.trace?.end({ route, method, status, aborted, reason })
    this.#accessLog.write(seen, { status, durationMs, aborted })
  }
}
