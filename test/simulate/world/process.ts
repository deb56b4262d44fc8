import type { Clock, TurnTimers } from '../../../src/domain/clock.ts'
import type { Random } from './random.ts'
import type { Host, Scheduler } from './scheduler.ts'

/** Virtual time zero, in ms since the epoch. */
export const EPOCH_MS = Date.UTC(2026, 0, 1)
/** Quartz that is not disciplined drifts by up to this. */
const MAX_DRIFT = 0.0002

/** A process that can freeze and end anywhere, with clocks of its own. */
export class Process implements Host {
  readonly name: string
  readonly clock: Clock
  readonly timers: TurnTimers
  readonly #scheduler: Scheduler
  readonly #bootMs: number
  #rate = 1
  #offsetMs: number
  #isAlive = true
  /** Until then, nothing happens in it. */
  frozenUntilMs = 0

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
      after: (delayMs, run) => this.#after(delayMs, run),
      every: (periodMs, run) => this.#every(periodMs, run),
      nextTurn: run => this.at(scheduler.nowMs, run),
    }
  }

  get isAlive(): boolean {
    return this.#isAlive
  }

  /** What happens to this process then: later if it is frozen, never if it has ended. */
  at(atMs: number, run: () => void): void {
    this.#scheduler.at(atMs, run, this)
  }

  /** The same at once, unless it is frozen. */
  now(run: () => void): void {
    if (this.frozenUntilMs > this.#scheduler.nowMs) this.at(this.frozenUntilMs, run)
    else if (this.#isAlive) run()
  }

  /** When its monotonic clock showed this. */
  trueTimeOf(monotonicMs: number): number {
    return this.#bootMs + monotonicMs / this.#rate
  }

  freeze(durationMs: number): void {
    this.frozenUntilMs = Math.max(this.frozenUntilMs, this.#scheduler.nowMs + durationMs)
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

  #after(delayMs: number, run: () => void): () => void {
    const event = this.#scheduler.at(this.#scheduler.nowMs + delayMs / this.#rate, run, this)
    return () => {
      event.run = null
    }
  }

  #every(periodMs: number, run: () => void): () => void {
    let isCancelled = false
    const tick = (): void => {
      if (isCancelled) return
      next()
      run()
    }
    const next = (): void => {
      this.#scheduler.at(this.#scheduler.nowMs + periodMs / this.#rate, tick, this)
    }
    next()
    return () => {
      isCancelled = true
    }
  }
}
