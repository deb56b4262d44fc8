/** Something that must not last for ever. */
export interface Bounded {
  /** Its place among all: the clock's to write. */
  place: number
  /** @param nowMs monotonic */
  checkDeadline(nowMs: number): void
}

/** The place of what no clock has. */
export const NOWHERE = -1

/** How late a deadline may be. */
const TICK_MS = 25

/**
 * One clock for all deadlines: a timer per request costs more than the whole decision on a key. It runs only while
 * something is under way, and keeps no process alive.
 */
export class DeadlineClock {
  readonly nowMs: () => number
  /**
   * In no order, each knowing its place. The table of a Set outlives what comes and goes: it was 7 % of all that was
   * allocated.
   */
  readonly #bounded: Bounded[] = []
  #interval: NodeJS.Timeout | null = null

  /** @param nowMs monotonic */
  constructor(nowMs: () => number) {
    this.nowMs = nowMs
  }

  add(bounded: Bounded): void {
    if (bounded.place !== NOWHERE) return
    bounded.place = this.#bounded.push(bounded) - 1
    this.#interval ??= setInterval(() => this.tick(), TICK_MS).unref()
  }

  delete(bounded: Bounded): void {
    const { place } = bounded
    const last = this.#bounded.at(-1)
    if (place === NOWHERE || last === undefined) return
    this.#bounded[place] = last
    last.place = place
    this.#bounded.pop()
    bounded.place = NOWHERE
  }

  /** All that has a deadline, in no order. */
  all(): readonly Bounded[] {
    return this.#bounded
  }

  tick(): void {
    // Stopping here, not at the last `delete`, spares a timer for each of a series of lone requests.
    if (this.#bounded.length === 0) this.stop()
    const nowMs = this.nowMs()
    // From the end, as whoever leaves meanwhile is replaced by the last, which has been asked by then.
    for (let place = this.#bounded.length - 1; place >= 0; place--) {
      this.#bounded[place]?.checkDeadline(nowMs)
    }
  }

  stop(): void {
    if (this.#interval !== null) clearInterval(this.#interval)
    this.#interval = null
  }
}
