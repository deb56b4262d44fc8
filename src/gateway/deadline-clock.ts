/** Something that must not last for ever. */
export interface Bounded {
  /** @param nowMs monotonic */
  checkDeadline(nowMs: number): void
}

/** How late a deadline may be. */
const TICK_MS = 25

/**
 * One clock for all deadlines: a timer per request costs more than the whole decision on a key. It runs only while
 * something is under way, and keeps no process alive.
 */
export class DeadlineClock {
  readonly nowMs: () => number
  readonly #bounded = new Set<Bounded>()
  #interval: NodeJS.Timeout | null = null

  /** @param nowMs monotonic */
  constructor(nowMs: () => number) {
    this.nowMs = nowMs
  }

  add(bounded: Bounded): void {
    this.#bounded.add(bounded)
    this.#interval ??= setInterval(() => this.tick(), TICK_MS).unref()
  }

  delete(bounded: Bounded): void {
    this.#bounded.delete(bounded)
  }

  tick(): void {
    // Stopping here, not at the last `delete`, spares a timer for each of a series of lone requests.
    if (this.#bounded.size === 0) this.stop()
    const nowMs = this.nowMs()
    for (const bounded of this.#bounded) bounded.checkDeadline(nowMs)
  }

  stop(): void {
    if (this.#interval !== null) clearInterval(this.#interval)
    this.#interval = null
  }
}
