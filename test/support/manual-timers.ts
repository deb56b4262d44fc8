import type { Timers } from '../../src/domain/clock.ts'

interface Waiting {
  dueMs: number
  readonly periodMs: number | null
  readonly run: () => void
}

/** Timers that a test advances. */
export class ManualTimers implements Timers {
  nowMs = 0
  readonly #waiting = new Set<Waiting>()

  after(delayMs: number, run: () => void): () => void {
    return this.#wait({ dueMs: this.nowMs + delayMs, periodMs: null, run })
  }

  every(periodMs: number, run: () => void): () => void {
    return this.#wait({ dueMs: this.nowMs + periodMs, periodMs, run })
  }

  /** Time until the next timer is due; null if there is none. */
  get nextDelayMs(): number | null {
    const due = [...this.#waiting].map(waiting => waiting.dueMs - this.nowMs)
    return due.length === 0 ? null : Math.min(...due)
  }

  advance(ms: number): void {
    const endMs = this.nowMs + ms
    for (let next = this.#next(endMs); next !== undefined; next = this.#next(endMs)) {
      this.nowMs = next.dueMs
      if (next.periodMs === null) this.#waiting.delete(next)
      else next.dueMs += next.periodMs
      next.run()
    }
    this.nowMs = endMs
  }

  #next(endMs: number): Waiting | undefined {
    return [...this.#waiting].filter(({ dueMs }) => dueMs <= endMs).sort((a, b) => a.dueMs - b.dueMs)[0]
  }

  #wait(waiting: Waiting): () => void {
    this.#waiting.add(waiting)
    return () => this.#waiting.delete(waiting)
  }
}
