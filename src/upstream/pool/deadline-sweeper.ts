/** Something with a deadline. */
export interface HasDeadline {
  /** Its index in the sweeper's list, written by the sweeper alone. */
  slot: number
  /** @param nowMs monotonic */
  checkDeadline(nowMs: number): void
}

/** The slot of what no sweeper has. */
export const NO_SLOT = -1

/** How late a deadline may be. */
const SWEEP_MS = 25

/**
 * One timer for all deadlines: a timer per request costs more than the whole decision on a key. It runs only while there
 * are deadlines, and keeps no process alive.
 */
export class DeadlineSweeper {
  readonly nowMs: () => number
  /** In no order. A Set of what comes and goes was 7 % of all allocations. */
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

  /** All that has a deadline, in no order. */
  all(): readonly HasDeadline[] {
    return this.#swept
  }

  sweep(): void {
    // Stopping here, not at the last `delete`, spares a timer for each of a series of single requests.
    if (this.#swept.length === 0) this.stop()
    const nowMs = this.nowMs()
    // From the end: an item that leaves is replaced by the last one, which has been checked by then.
    for (let slot = this.#swept.length - 1; slot >= 0; slot--) {
      this.#swept[slot]?.checkDeadline(nowMs)
    }
  }

  stop(): void {
    if (this.#interval !== null) clearInterval(this.#interval)
    this.#interval = null
  }
}
