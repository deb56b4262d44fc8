import type { Clock } from '../../src/domain/clock.ts'

/** A clock that a test advances. */
export class ManualClock implements Clock {
  #wallMs = Date.parse('2026-11-20T09:00:00Z')
  #monotonicMs = 1_000_000

  wallMs(): number {
    return this.#wallMs
  }

  monotonicMs(): number {
    return this.#monotonicMs
  }

  advance(ms: number): void {
    this.#wallMs += ms
    this.#monotonicMs += ms
  }

  /** Steps the wall clock alone, as NTP or an administrator does. */
  stepWallClock(ms: number): void {
    this.#wallMs += ms
  }
}
