import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { DenialReason } from '../domain/denial.ts'
import type { TierName } from '../domain/key/key-record.ts'
import type { ABORT_PHASES } from './metrics/metric-labels.ts'

/** Facts about one request for metrics, log and trace. Its steps write them; `RequestObserver` reads them at the end. */
export interface RequestObservation {
  readonly method: string
  /** As `performance.now()`. */
  readonly startedAtMs: number
  /** When the key lookup began, as `performance.now()`, if the request is traced. */
  lookupStartedAtMs: number
  requestId: string
  /** Name of the matched route, never a path. */
  route: string
  phase: (typeof ABORT_PHASES)[number]
  reason: DenialReason | null
  keyId: string | null
  workspaceId: string | null
  /** Of the connection, or what a trusted proxy says; '' until the key is looked up. */
  clientAddress: string
  tier: TierName | null
  /** Who produced the status. */
  source: 'gateway' | 'upstream'
  upstreamWaitMs: number
  responseBytes: number
  /** In flight until the response is handed over to Node, however long the client takes to read it. */
  isInFlight: boolean
  /** What failed, for the log only. */
  fault: string | null
  /** Status of an upstream response that no client may see. */
  upstreamStatus: number | null
  /** Whether the upstream response ended early, so that the gateway closed the client connection. */
  truncated: boolean
  /** Source of the response, if there was no upstream request for it alone. */
  shared: 'joined' | 'cache' | 'revalidated' | null
  /** The trace that the request belongs to. */
  readonly traceId: string | null
  /** Its spans; null if tracing is disabled. */
  readonly trace: RequestTrace | null
}

/** The spans of one request: the request, its key lookup and its upstream request. */
export interface RequestTrace {
  readonly traceId: string
  readonly spanId: string
  /** Whether the trace is exported: sampling drops some. */
  readonly recorded: boolean
  /** @param tier null if no tier returned a result @param startedAtMs as `performance.now()` */
  lookedUp(tier: TierName | null, startedAtMs: number): void
  /** Starts the upstream span. @returns the `traceparent` to send to the upstream (W3C Trace Context, 3.2) */
  forwarding(): string
  /** @param status status code of the upstream's response; 0 if there was none @param fault what failed, or null */
  forwarded(status: number, fault: string | null): void
  end(facts: { route: string; method: string; status: number; aborted: boolean; reason: string | null }): void
}

/** The part of a request that tracing reads. */
export type TracedRequest = Pick<IncomingMessage, 'headers' | 'socket'>

/** Whether the sampled flag of this request's `traceparent` decides; if not, `tracing.sampleRatio` does. */
export type TrustsParent = (request: TracedRequest) => boolean

export interface Tracing {
  begin(request: TracedRequest): RequestTrace
  /** Exports the remaining spans. */
  stop(): Promise<void>
}

/** Version ff and ids of only zeros are invalid (W3C Trace Context, 3.2.2). */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

/** @returns the trace id that the client sent, for the log, also if tracing is disabled; null without a valid one */
export function readTraceId(headers: IncomingHttpHeaders): string | null {
  const { traceparent } = headers
  return typeof traceparent === 'string' ? (TRACEPARENT.exec(traceparent)?.[1] ?? null) : null
}
