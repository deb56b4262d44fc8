import { GRACE_MS } from './connection-shares.ts'

/** An exchange that may have to give up its connection for another workspace. */
export interface PreemptionCandidate {
  readonly workspaceId: string
  /** `discarding`: the client has its response, and the rest of the body is read and discarded. */
  readonly stage: 'waiting' | 'streaming' | 'discarding'
  /** How long its client has read nothing of the waiting data. */
  readonly stalledMs: number
  /** Monotonic. */
  readonly startedAtMs: number
}

/** Ranks the exchanges of one workspace: the one whose loss costs its client the least is preempted first. */
function rankOf({ stage, stalledMs }: PreemptionCandidate): number {
  if (stage === 'discarding') return 0
  if (stalledMs >= GRACE_MS) return 1
  // Before the response head the client gets a 503 with Retry-After; after it, only a closed connection.
  return stage === 'waiting' ? 2 : 3
}

function isPreferred(one: PreemptionCandidate, other: PreemptionCandidate): boolean {
  const rank = rankOf(one)
  if (rank !== rankOf(other)) return rank < rankOf(other)
  if (rank === 1 && one.stalledMs !== other.stalledMs) return one.stalledMs > other.stalledMs
  return one.startedAtMs > other.startedAtMs
}

/**
 * Selects the exchange that gives up its connection, from the workspace that is furthest above its share.
 * @param excessOf connections that a workspace holds above its share; at 0 or less none of its exchanges is preempted
 */
export function selectForPreemption<Exchange extends PreemptionCandidate>(
  exchanges: Iterable<Exchange>,
  excessOf: (workspaceId: string) => number,
): Exchange | undefined {
  let first: Exchange | undefined
  let most = 0
  for (const exchange of exchanges) {
    const excess = excessOf(exchange.workspaceId)
    if (excess < most || excess <= 0) continue
    if (first === undefined || excess > most || isPreferred(exchange, first)) first = exchange
    most = excess
  }
  return first
}
