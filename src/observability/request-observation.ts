import type { DenialReason } from '../domain/denial.ts'
import type { TierName } from '../domain/key/key-record.ts'
import type { ABORT_PHASES } from './metrics/metric-labels.ts'
import type { RequestTrace } from './tracing.ts'

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
