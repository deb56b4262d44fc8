import type { Clock } from '../../../domain/clock.ts'

/** Each batch adds this to the time that its call may wait for the outbox. */
export const WAIT_PER_BATCH_MS = 1000
const MAX_WAIT_MS = 30_000

/** How long one call over many keys may still wait for the outbox: a slow one is waited for, a stalled one not for long. */
export class WaitAllowance {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  #batches = 0
  #usedMs = 0

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock
  }

  addBatch(): void {
    this.#batches += 1
  }

  /** A call without any batch waits for changes of earlier calls. */
  get leftMs(): number {
    const totalMs = Math.min(Math.max(this.#batches, 1) * WAIT_PER_BATCH_MS, MAX_WAIT_MS)
    return Math.max(0, totalMs - this.#usedMs)
  }

  /** @param wait waits for so long at most */
  async spend<Result>(
    wait: (maxMs: number) => Promise<Result>,
    atMostMs = Number.POSITIVE_INFINITY,
  ): Promise<Result> {
    const startedAtMs = this.#clock.monotonicMs()
    try {
      return await wait(Math.min(this.leftMs, atMostMs))
    } finally {
      this.#usedMs += this.#clock.monotonicMs() - startedAtMs
    }
  }
}
