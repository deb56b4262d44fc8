import { ChurningMap } from '../../domain/churning-map.ts'

export interface QueueLimits {
  /** How many may wait. */
  readonly maxRequests: number
  /** How long each may wait, ms. */
  readonly maxWaitMs: number
}

/** Who waits for a connection, in order of arrival: bounded in number and in time. It owns no timer. */
export class UpstreamQueue<Item> {
  readonly #limits: QueueLimits
  readonly #sinceMs = new ChurningMap<Item, number>()

  constructor(limits: QueueLimits) {
    this.#limits = limits
  }

  get size(): number {
    return this.#sinceMs.size
  }

  get isFull(): boolean {
    return this.#sinceMs.size >= this.#limits.maxRequests
  }

  add(item: Item, nowMs: number): void {
    this.#sinceMs.set(item, nowMs)
  }

  /** @returns whether it waited */
  delete(item: Item): boolean {
    return this.#sinceMs.delete(item)
  }

  /** Takes the one that has waited longest. */
  take(): Item | undefined {
    for (const item of this.#sinceMs.keys()) {
      this.#sinceMs.delete(item)
      return item
    }
    return undefined
  }

  all(): Item[] {
    return [...this.#sinceMs.keys()]
  }

  /** Those who have waited too long; they stay in it. */
  overdue(nowMs: number): Item[] {
    const late: Item[] = []
    for (const [item, sinceMs] of this.#sinceMs.entries()) {
      if (nowMs - sinceMs < this.#limits.maxWaitMs) break
      late.push(item)
    }
    return late
  }
}
