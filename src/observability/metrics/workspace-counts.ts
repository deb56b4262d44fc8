import type { Clock } from '../../domain/clock.ts'
import { OTHER_WORKSPACES } from '../../domain/key/key-record.ts'
import type { Metrics } from './metrics.ts'

/** How long after a request of a workspace that is not named it is still said that there are such. */
const FOLDED_FOR_MS = 300_000

/**
 * Requests by workspace, of the few that an operator named; all others are one. So there are as many series as names,
 * for any number of workspaces, and it shows that there are more.
 */
export class WorkspaceCounts {
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

  /** @param workspaceId of a request's key, from its record and not from the request */
  count(workspaceId: string): void {
    const isNamed = this.#named.has(workspaceId)
    if (!isNamed) this.#foldedAtMs = this.#clock.monotonicMs()
    this.#metrics.workspaceRequests.inc({ workspace: isNamed ? workspaceId : OTHER_WORKSPACES })
  }

  #isFolding(): boolean {
    return this.#clock.monotonicMs() - this.#foldedAtMs < FOLDED_FOR_MS
  }
}

/** Null if no workspace is named: then no metric carries a workspace. */
export function workspaceCountsOf(
  metrics: Metrics,
  named: readonly string[],
  clock: Clock,
): WorkspaceCounts | null {
  return named.length === 0 ? null : new WorkspaceCounts(metrics, named, clock)
}
