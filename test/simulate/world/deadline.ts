import type { Process } from './process.ts'

/** A timer that is moved often and fires rarely: it costs one event, however often it is moved to a later time. */
export class Deadline {
  readonly #process: Process
  readonly #run: () => void
  #dueMs = Number.POSITIVE_INFINITY
  #isArmed = false

  constructor(process: Process, run: () => void) {
    this.#process = process
    this.#run = run
  }

  get isSet(): boolean {
    return this.#dueMs !== Number.POSITIVE_INFINITY
  }

  /** @param dueMs by the clock of the process; never before what was set last */
  set(dueMs: number): void {
    this.#dueMs = dueMs
    if (!this.#isArmed) this.#arm()
  }

  clear(): void {
    this.#dueMs = Number.POSITIVE_INFINITY
  }

  #arm(): void {
    this.#isArmed = true
    const { clock, timers } = this.#process
    timers.after(this.#dueMs - clock.monotonicMs(), this.#fire)
  }

  readonly #fire = (): void => {
    this.#isArmed = false
    if (!this.isSet) return
    // A timer may be early by what numbers round away.
    if (this.#dueMs - this.#process.clock.monotonicMs() > 1e-6) this.#arm()
    else {
      this.#dueMs = Number.POSITIVE_INFINITY
      this.#run()
    }
  }
}
