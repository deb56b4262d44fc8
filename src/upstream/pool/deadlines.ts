import type { UpstreamFailureKind } from './failure.ts'

export interface DeadlineLimits {
  readonly headersTimeoutMs: number
  readonly bodyIdleTimeoutMs: number
  readonly totalTimeoutMs: number
  /** How long a client may read nothing while a part of its response waits to be sent. */
  readonly clientStallMs: number
}

/** `client_stalled` is no failure of the upstream. */
type ExceededDeadline = Extract<UpstreamFailureKind, `${string}_timeout`> | 'client_stalled'

/** The deadlines of one exchange, as a function of time without a timer. */
export class Deadlines {
  readonly #limits: DeadlineLimits
  readonly #startedAtMs: number
  readonly #waitedBeforeMs: number
  #hasHead = false
  #isPaused = false
  #progressed = false
  #progressAtMs = 0

  /** @param waitedBeforeMs time already used of the limit for the whole response */
  constructor(limits: DeadlineLimits, startedAtMs: number, waitedBeforeMs = 0) {
    this.#limits = limits
    this.#startedAtMs = startedAtMs
    this.#waitedBeforeMs = waitedBeforeMs
  }

  /** @returns milliseconds since the exchange started */
  elapsedMs(nowMs: number): number {
    return nowMs - this.#startedAtMs
  }

  headReceived(nowMs: number): void {
    this.#hasHead = true
    this.#progressAtMs = nowMs
  }

  /** Call for each chunk. The next `overdue` sets its time, because reading the clock per chunk is expensive. */
  progressed(): void {
    this.#progressed = true
  }

  get isPaused(): boolean {
    return this.#isPaused
  }

  /** @param isPaused whether reading is paused for the client, so that the upstream's idle time does not count */
  setPaused(isPaused: boolean): void {
    this.#isPaused = isPaused
    this.#progressed = true
  }

  /** @returns start of the exchange and how long its client has read nothing; 0 ms if no data waits for it */
  stall(nowMs: number): { startedAtMs: number; stalledMs: number } {
    const stalledMs = this.#isPaused && !this.#progressed ? nowMs - this.#progressAtMs : 0
    return { startedAtMs: this.#startedAtMs, stalledMs }
  }

  overdue(nowMs: number): ExceededDeadline | null {
    if (this.#progressed) {
      this.#progressed = false
      this.#progressAtMs = nowMs
    }
    const limits = this.#limits
    const elapsedMs = nowMs - this.#startedAtMs
    const idleMs = nowMs - this.#progressAtMs
    if (elapsedMs + this.#waitedBeforeMs >= limits.totalTimeoutMs) return 'total_timeout'
    if (!this.#hasHead) return elapsedMs >= limits.headersTimeoutMs ? 'headers_timeout' : null
    if (this.#isPaused) return idleMs >= limits.clientStallMs ? 'client_stalled' : null
    return idleMs >= limits.bodyIdleTimeoutMs ? 'body_timeout' : null
  }
}

/** An item that the sweeper checks. */
export interface HasDeadline {
  /** Its index in the sweeper's list, written by the sweeper alone. */
  slot: number
  /** @param nowMs monotonic */
  checkDeadline(nowMs: number): void
}

/** The slot of an item that is in no sweeper. */
export const NO_SLOT = -1

/** Interval of the checks, and so the largest delay of a deadline. */
const SWEEP_MS = 25

/**
 * One timer for all deadlines, because a timer per request costs more than authorizing it. It runs only while there are
 * deadlines, and does not keep the process alive.
 */
export class DeadlineSweeper {
  readonly nowMs: () => number
  /** In no order. A Set in its place made 7 % of all allocations. */
  readonly #swept: HasDeadline[] = []
  #interval: NodeJS.Timeout | null = null

  /** @param nowMs monotonic */
  constructor(nowMs: () => number) {
    this.nowMs = nowMs
  }

  add(item: HasDeadline): void {
    if (item.slot !== NO_SLOT) return
    item.slot = this.#swept.push(item) - 1
    this.#interval ??= setInterval(() => this.sweep(), SWEEP_MS).unref()
  }

  delete(item: HasDeadline): void {
    const { slot } = item
    const last = this.#swept.at(-1)
    if (slot === NO_SLOT || last === undefined) return
    this.#swept[slot] = last
    last.slot = slot
    this.#swept.pop()
    item.slot = NO_SLOT
  }

  /** All items, in no order. */
  all(): readonly HasDeadline[] {
    return this.#swept
  }

  sweep(): void {
    // Stops here, not in `delete`, so that a series of single requests does not start a timer for each.
    if (this.#swept.length === 0) this.stop()
    const nowMs = this.nowMs()
    // From the end: `delete` moves the last item into the free slot, and that one has been checked by then.
    for (let slot = this.#swept.length - 1; slot >= 0; slot--) {
      this.#swept[slot]?.checkDeadline(nowMs)
    }
  }

  stop(): void {
    if (this.#interval !== null) clearInterval(this.#interval)
    this.#interval = null
  }
}
