import { threadCpuMs } from './cpu-time.ts'

/** Measures how much processor time each turn of the event loop of this thread takes: what others wait for at most. */
export class TurnMeter {
  /** Processor time, not time that has passed: a busy machine does not lengthen it. */
  longestMs = 0
  totalMs = 0
  turns = 0
  #isStopped = false
  #turnStartedAtMs = threadCpuMs()

  constructor() {
    this.#awaitNextTurn()
  }

  stop(): void {
    this.#isStopped = true
  }

  #awaitNextTurn(): void {
    setImmediate(() => {
      const nowMs = threadCpuMs()
      const tookMs = nowMs - this.#turnStartedAtMs
      this.#turnStartedAtMs = nowMs
      this.longestMs = Math.max(this.longestMs, tookMs)
      this.totalMs += tookMs
      this.turns += 1
      if (!this.#isStopped) this.#awaitNextTurn()
    })
  }
}
