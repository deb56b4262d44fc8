import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import type { Lookup, TierName } from '../domain/lookup.ts'
import type { DenialReason, Verdict } from '../domain/verdict.ts'
import {
  ABORT_PHASES,
  classLabel,
  codeLabel,
  collectOnScrape,
  DECISION_REASONS,
  LOOKUP_TIERS,
  type Metrics,
  REJECTION_REASONS,
} from './metrics.ts'
import { type RequestTrace, type Tracing, traceIdOf } from './tracing.ts'
import type { WorkspaceCounts } from './workspace-counts.ts'

/** Methods that have their name in logs and traces. */
const METHODS = new Set(['GET', 'HEAD', 'OPTIONS', 'POST'])
/** The one that is allowed has its name in metrics; each more would be a series per route. */
const COUNTED_METHOD = 'GET'

/** Reasons before the credential was looked at. The others are decisions on it, or what came after. */
const REJECTIONS: Partial<Record<DenialReason, (typeof REJECTION_REASONS)[number]>> = {
  malformed_request: 'header',
  url_too_long: 'path',
  headers_too_large: 'header',
  unknown_route: 'path',
  method_not_allowed: 'method',
  body_not_allowed: 'body',
  overloaded: 'overload',
  draining: 'draining',
}

const DECISIONS: Partial<Record<DenialReason, (typeof DECISION_REASONS)[number]>> = {
  key_missing: 'missing',
  key_invalid: 'unknown',
  key_expired: 'expired',
  key_revoked: 'revoked',
  key_store_unavailable: 'store_error',
  other_workspace: 'workspace',
  scope_missing: 'scope',
  invalid_query: 'query',
  rate_limited: 'limited',
}

/** What is known of one request when it ends: written by the steps of its way, read once by `RequestObserver`. */
export interface RequestObservation {
  readonly method: string
  readonly startedAtMs: number
  requestId: string
  /** Name of the matched route: never a path. */
  route: string
  phase: (typeof ABORT_PHASES)[number]
  reason: DenialReason | null
  keyId: string | null
  workspaceId: string | null
  tier: TierName | null
  /** Who produced the status. */
  source: 'gateway' | 'upstream'
  upstreamWaitMs: number
  responseBytes: number
  /** What went wrong, in words for the log alone. */
  fault: string | null
  /** Whether the upstream broke off in the middle of its answer, so that it was us who ended the connection. */
  truncated: boolean
  /** The trace that the request is part of, where it or we are in one. */
  readonly traceId: string | null
  /** Its spans; null where there is no tracing. */
  readonly trace: RequestTrace | null
}

/** As much of a route as its counters are told apart by. */
interface ObservedRoute {
  readonly name: string
  readonly answeredBy?: 'gateway' | 'upstream' | undefined
}

/** Counts and logs each request once, however it ends: answered, refused, or left by its client. */
export class RequestObserver {
  inFlight = 0
  readonly #metrics: Metrics
  readonly #logger: Logger
  readonly #tracing: Tracing | null
  readonly #workspaces: WorkspaceCounts | null

  constructor(
    metrics: Metrics,
    logger: Logger,
    tracing: Tracing | null = null,
    routes: readonly ObservedRoute[] = [],
    workspaces: WorkspaceCounts | null = null,
  ) {
    this.#metrics = metrics
    this.#logger = logger
    this.#tracing = tracing
    this.#workspaces = workspaces
    this.#startAtZero()
    for (const route of routes) this.#startRouteAtZero(route)
    collectOnScrape(metrics.requestsInFlight, gauge => gauge.set(this.inFlight))
  }

  /** `close` comes after the last byte as well as after an abort; Fastify's onResponse does not come after an abort. */
  begin({ method = '', headers }: IncomingMessage, response: ServerResponse): RequestObservation {
    const trace = this.#tracing === null ? null : this.#tracing.begin(headers)
    const observation: RequestObservation = {
      method: METHODS.has(method) ? method : '_OTHER',
      startedAtMs: performance.now(),
      requestId: '',
      route: 'none',
      phase: 'auth',
      reason: null,
      keyId: null,
      workspaceId: null,
      tier: null,
      source: 'gateway',
      upstreamWaitMs: 0,
      responseBytes: 0,
      fault: null,
      truncated: false,
      traceId: trace === null ? traceIdOf(headers) : trace.traceId,
      trace,
    }
    this.inFlight++
    response.once('close', () => this.#end(observation, response))
    return observation
  }

  /** @param askedAtMs when the look-up began, as `performance.now()` */
  lookedUp(observation: RequestObservation, lookup: Lookup, askedAtMs: number): void {
    if (lookup.kind !== 'unknown') observation.tier = lookup.tier
    if (lookup.kind === 'found') {
      observation.keyId = lookup.grant.id
      observation.workspaceId = lookup.grant.workspaceId
    }
    observation.trace?.lookedUp(observation.tier, askedAtMs)
  }

  /** A decision on a credential, once per request that presented or lacked one. */
  decided(observation: RequestObservation, verdict: Verdict): void {
    if (verdict.kind === 'permitted') this.#metrics.decisions.inc({ decision: 'permitted', reason: 'ok' })
    else this.#countDenial(verdict.reason, observation.tier)
    if (observation.tier === null) return
    const seconds = (performance.now() - observation.startedAtMs) / 1000
    this.#metrics.authDuration.observe({ tier: observation.tier }, seconds)
  }

  /** A request that Node's parser refused: it has no response object to observe. */
  refusedByParser(reason: DenialReason, requestId: string, status: number): void {
    this.#metrics.requests.inc({
      route: 'none',
      method: '_OTHER',
      code: String(status),
      source: 'gateway',
    })
    this.#metrics.rejected.inc({ reason: REJECTIONS[reason] ?? 'header' })
    this.#logger.info({ requestId, method: '_OTHER', route: 'none', status, reason }, 'request')
  }

  /** So that an alert on a rate fires on the first of its kind. */
  #startAtZero(): void {
    for (const phase of ABORT_PHASES) this.#metrics.clientAborts.inc({ phase }, 0)
    for (const reason of REJECTION_REASONS) this.#metrics.rejected.inc({ reason }, 0)
    for (const reason of DECISION_REASONS) {
      this.#metrics.decisions.inc({ decision: reason === 'ok' ? 'permitted' : 'denied', reason }, 0)
    }
    for (const tier of LOOKUP_TIERS) this.#metrics.authDuration.zero({ tier })
  }

  /** What an error ratio is made of; what else a client may bring about begins with its first. */
  #startRouteAtZero({ name: route, answeredBy = 'upstream' }: ObservedRoute): void {
    const start = (code: string, source: string) =>
      this.#metrics.requests.inc({ route, method: 'GET', code, source }, 0)
    start('200', answeredBy)
    for (const code of ['500', '503']) start(code, 'gateway')
    if (answeredBy === 'upstream') for (const code of ['502', '503', '504']) start(code, 'upstream')
    this.#metrics.requestDuration.zero({ route, code_class: '2xx' })
    this.#metrics.responseBytes.inc({ route }, 0)
  }

  /** An invalid key that no tier was asked for had not the form of one. */
  #countDenial(reason: DenialReason, tier: TierName | null): void {
    const decision = reason === 'key_invalid' && tier === null ? 'malformed' : DECISIONS[reason]
    if (decision !== undefined) this.#metrics.decisions.inc({ decision: 'denied', reason: decision })
  }

  #end(seen: RequestObservation, response: ServerResponse): void {
    this.inFlight--
    const finished = response.writableFinished
    const durationMs = performance.now() - seen.startedAtMs
    if (finished) this.#countAnswer(seen, response.statusCode, durationMs / 1000)
    else if (!seen.truncated) this.#metrics.clientAborts.inc({ phase: seen.phase })
    this.#metrics.responseBytes.inc({ route: seen.route }, seen.responseBytes)
    if (seen.workspaceId !== null) this.#workspaces?.count(seen.workspaceId)
    const rejection = seen.reason === null ? undefined : REJECTIONS[seen.reason]
    if (rejection !== undefined) this.#metrics.rejected.inc({ reason: rejection })
    const { route, method, reason } = seen
    const aborted = !finished && !seen.truncated
    seen.trace?.end({ route, method, status: response.statusCode, aborted, reason })
    this.#log(seen, response.statusCode, durationMs, aborted)
  }

  #countAnswer(seen: RequestObservation, status: number, seconds: number): void {
    const { route, source } = seen
    const method = seen.method === COUNTED_METHOD ? COUNTED_METHOD : '_OTHER'
    // Our own statuses are a closed set.
    const code = source === 'gateway' ? String(status) : codeLabel(status)
    this.#metrics.requests.inc({ route, method, code, source })
    const recorded = seen.trace?.recorded === true ? seen.trace.traceId : null
    this.#metrics.observeRequest({ route, code_class: classLabel(status) }, seconds, recorded)
    this.#metrics.overheadDuration.observe(Math.max(0, seconds - seen.upstreamWaitMs / 1000))
  }

  #log(seen: RequestObservation, status: number, durationMs: number, aborted: boolean): void {
    this.#logger.info(
      {
        requestId: seen.requestId,
        method: seen.method,
        route: seen.route,
        ...(aborted ? { aborted: seen.phase } : { status, source: seen.source }),
        ...(seen.truncated ? { truncated: true } : {}),
        ...(seen.reason === null ? {} : { reason: seen.reason }),
        ...(seen.keyId === null ? {} : { keyId: seen.keyId, workspaceId: seen.workspaceId }),
        ...(seen.tier === null ? {} : { tier: seen.tier }),
        ...(seen.fault === null ? {} : { fault: seen.fault }),
        ...(seen.traceId === null ? {} : { traceId: seen.traceId }),
        ...(seen.trace === null ? {} : { spanId: seen.trace.spanId }),
        durationMs: Math.round(durationMs * 1000) / 1000,
        upstreamMs: Math.round(seen.upstreamWaitMs * 1000) / 1000,
      },
      'request',
    )
  }
}
