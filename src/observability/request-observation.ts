import type { DenialReason } from '../domain/denial.ts'
import type { TierName } from '../domain/key/lookup.ts'
import type { ABORT_PHASES } from './metrics/metric-labels.ts'
import type { RequestTrace } from './tracing/tracing.ts'

/** What is known of one request: its steps write it, `RequestObserver` reads it once at the end. */
export interface RequestObservation {
  readonly method: string
  readonly startedAtMs: number
  /** When the key lookup began, if the request is traced. */
  lookupStartedAtMs: number
  requestId: string
  /** Name of the matched route, never a path. */
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
  /** In flight until the response is handed over to Node, however long the client takes to read it. */
  isInFlight: boolean
  /** What went wrong, for the log only. */
  fault: string | null
  /** Status of an upstream response that no client may see. */
  upstreamStatus: number | null
  /** Whether the upstream broke off within its response, so that the gateway closed the client's connection. */
  truncated: boolean
  /** Where the response came from, if the upstream was not asked for this request alone. */
  shared: 'joined' | 'cache' | 'revalidated' | null
  /** The trace that the request belongs to. */
  readonly traceId: string | null
  /** Its spans; null where traces are switched off. */
  readonly trace: RequestTrace | null
}
