import type { CounterHandle } from '../../observability/metrics/metrics.ts'

/** A denied request whose key was known. It holds no path, query or secret. */
export interface ReportedRefusal {
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly keyId: string
  readonly route: string
  /** As the client saw it. */
  readonly code: string
  readonly reason: string
  readonly requestId: string
  /** Network of the client, not its address. */
  readonly address: string
}

export interface OmittedRefusals {
  readonly workspaceId: string
  readonly count: number
}

const MAX_PER_SECOND = 50
/** The console keeps no more of a workspace. */
const MAX_OF_WORKSPACE = 200
const MAX_WAITING = 5_000
/** Workspaces of which the number of omitted refusals is noted. */
const MAX_OMITTING = 1_000

/** Unreported refusals, bounded. It notes how many of each workspace it left out. */
export class RefusalLog {
  readonly #waiting = new Map<string, ReportedRefusal[]>()
  readonly #omitted = new Map<string, number>()
  readonly #allOmitted: CounterHandle
  #size = 0
  #second = 0
  /** By workspace, refusals in the current second. */
  readonly #inSecond = new Map<string, number>()

  /** @param allOmitted counts the omitted refusals of all workspaces */
  constructor(allOmitted: CounterHandle) {
    this.#allOmitted = allOmitted
  }

  get size(): number {
    return this.#size + this.#omitted.size
  }

  /** @param describe called only if the refusal is kept */
  record(workspaceId: string, nowMs: number, describe: () => ReportedRefusal): void {
    if (!this.#isWithinRate(workspaceId, nowMs)) {
      this.#omit(workspaceId)
      return
    }
    const waiting = this.#waiting.get(workspaceId) ?? []
    if (waiting.length === MAX_OF_WORKSPACE) {
      waiting.shift()
      this.#size--
      this.#omit(workspaceId)
    }
    if (this.#size >= MAX_WAITING) {
      this.#omit(workspaceId)
      return
    }
    waiting.push(describe())
    this.#size++
    this.#waiting.set(workspaceId, waiting)
  }

  /** Removes refusals, workspace by workspace, until there are `count`, and the numbers of omitted ones. */
  take(count: number): { refusals: ReportedRefusal[]; omitted: OmittedRefusals[] } {
    const refusals: ReportedRefusal[] = []
    for (const [workspaceId, waiting] of this.#waiting) {
      if (refusals.length >= count) break
      refusals.push(...waiting)
      this.#size -= waiting.length
      this.#waiting.delete(workspaceId)
    }
    const omitted = [...this.#omitted].map(([workspaceId, number]) => ({ workspaceId, count: number }))
    this.#omitted.clear()
    return { refusals, omitted }
  }

  #isWithinRate(workspaceId: string, nowMs: number): boolean {
    const second = Math.floor(nowMs / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#inSecond.clear()
    }
    const number = (this.#inSecond.get(workspaceId) ?? 0) + 1
    this.#inSecond.set(workspaceId, number)
    return number <= MAX_PER_SECOND
  }

  #omit(workspaceId: string): void {
    this.#allOmitted.inc()
    const number = this.#omitted.get(workspaceId)
    if (number === undefined && this.#omitted.size >= MAX_OMITTING) return
    this.#omitted.set(workspaceId, (number ?? 0) + 1)
  }
}
