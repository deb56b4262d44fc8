import { GRACE_MS } from './connection-shares.ts'

/** The state of an exchange whose connection another workspace is owed. */
export interface Standing {
  readonly workspaceId: string
  /** `discarding`: its client has been answered, and the rest of the body is only read away. */
  readonly stage: 'waiting' | 'streaming' | 'discarding'
  /** How long its client has taken nothing of what waits for it, ms. */
  readonly stalledMs: number
  /** When it began, monotonic. */
  readonly askedAtMs: number
}

/** Which exchange of one workspace ends first: the one whose end costs its client the least. */
function rankOf({ stage, stalledMs }: Standing): number {
  if (stage === 'discarding') return 0
  if (stalledMs >= GRACE_MS) return 1
  // Before its head, the client gets a whole answer that says to come again; after it, only a cut connection.
  return stage === 'waiting' ? 2 : 3
}

function endsBefore(one: Standing, other: Standing): boolean {
  const rank = rankOf(one)
  if (rank !== rankOf(other)) return rank < rankOf(other)
  if (rank === 1 && one.stalledMs !== other.stalledMs) return one.stalledMs > other.stalledMs
  return one.askedAtMs > other.askedAtMs
}

/**
 * The exchange that gives up its connection: one of the workspace that is furthest above its share.
 * @param excessOf connections that a workspace holds above its share; at 0 or less none of its exchanges is ended
 */
export function firstToEnd<Exchange extends Standing>(
  exchanges: Iterable<Exchange>,
  excessOf: (workspaceId: string) => number,
): Exchange | undefined {
  let first: Exchange | undefined
  let most = 0
  for (const exchange of exchanges) {
    const excess = excessOf(exchange.workspaceId)
    if (excess < most || excess <= 0) continue
    if (first === undefined || excess > most || endsBefore(exchange, first)) first = exchange
    most = excess
  }
  return first
}
