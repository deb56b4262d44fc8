import type { Clock } from '../../domain/clock.ts'
import { OTHER_WORKSPACES } from '../../domain/key/key-record.ts'
import type { Metrics } from './metrics.ts'

/** How long after a request of an unnamed workspace `postern_workspace_series_folded` stays 1. */
const FOLDED_FOR_MS = 300_000

/**
 * Counts requests of the workspaces that the operator named, and of all others together. The number of series depends on the
 * names, not on the number of workspaces.
 */
export class WorkspaceRequestCounts {
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
