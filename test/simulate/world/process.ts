import type { Clock } from '../../../src/domain/clock.ts'
import type { TurnTimers } from '../../../src/domain/timers.ts'
import type { Random } from './random.ts'
import type { Scheduler } from './scheduler.ts'

/** Virtual time zero, in ms since the epoch. */
export const EPOCH_MS = Date.UTC(2026, 0, 1)
/** Quartz that is not disciplined drifts by up to this. */
const MAX_DRIFT = 0.0002

/** A process that can freeze and end anywhere, with clocks of its own. */
export class Process {
  readonly name: string
  readonly clock: Clock
  readonly timers: TurnTimers
  readonly #scheduler: Scheduler
  readonly #bootMs: number
  #rate = 1
  #offsetMs: number
  #isAlive = true
  #frozenUntilMs = 0

  constructor(name: string, scheduler: Scheduler, random: Random) {
    this.name = name
    this.#scheduler = scheduler
    this.#bootMs = scheduler.nowMs
    this.#rate = 1 + random.between(-MAX_DRIFT, MAX_DRIFT)
    this.#offsetMs = random.between(-200, 200)
    const startedAtMs = this.#wallOfSystem()
    this.clock = {
      monotonicMs: () => this.#upMs(),
      // As the system's clock: never behind the monotonic time since the start.
      wallMs: () => Math.floor(Math.max(this.#wallOfSystem(), startedAtMs + this.#upMs())),
    }
    this.timers = {
      after: (delayMs, run) => this.at(scheduler.nowMs + delayMs / this.#rate, run),
      every: (periodMs, run) => this.#every(periodMs, run),
      nextTurn: run => void this.at(scheduler.nowMs, run),
    }
  }

  get isAlive(): boolean {
    return this.#isAlive
  }

  /** What happens to this process then: later if it is frozen, never if it has ended. @returns cancels it */
  at(atMs: number, run: () => void): () => void {
    const attempt = (): void => {
      if (!this.#isAlive) return
      if (this.#frozenUntilMs <= this.#scheduler.nowMs) run()
      else cancel = this.#scheduler.at(this.#frozenUntilMs, attempt)
    }
    let cancel = this.#scheduler.at(atMs, attempt)
    return () => cancel()
  }

  /** The same at once, unless it is frozen. */
  now(run: () => void): void {
    if (this.#frozenUntilMs > this.#scheduler.nowMs) this.at(this.#frozenUntilMs, run)
    else if (this.#isAlive) run()
  }

  /** When its monotonic clock showed this. */
  trueTimeOf(monotonicMs: number): number {
    return this.#bootMs + monotonicMs / this.#rate
  }

  freeze(durationMs: number): void {
    this.#frozenUntilMs = Math.max(this.#frozenUntilMs, this.#scheduler.nowMs + durationMs)
  }

  end(): void {
    this.#isAlive = false
  }

  /** Sets the wall clock. */
  jump(byMs: number): void {
    this.#offsetMs += byMs
  }

  #upMs(): number {
    return (this.#scheduler.nowMs - this.#bootMs) * this.#rate
  }

  #wallOfSystem(): number {
    return EPOCH_MS + this.#scheduler.nowMs + this.#offsetMs
  }

  #every(periodMs: number, run: () => void): () => void {
    let cancel = () => {}
    let isCancelled = false
    const next = (): void => {
      if (isCancelled) return
      cancel = this.timers.after(periodMs, () => {
        next()
        run()
      })
    }
    next()
    return () => {
      isCancelled = true
      cancel()
    }
  }
}
