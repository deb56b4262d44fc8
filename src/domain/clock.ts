/** Time is passed in as a value. Expiry uses the wall clock; ages and deadlines use the monotonic clock. */
export interface Clock {
  /** Milliseconds since the epoch. */
  wallMs(): number
  /** Milliseconds since some fixed moment of this process, never going back. */
  monotonicMs(): number
}

/**
 * As it was when the program began; rounded up, as `Date.now()` leaves out the last part of a millisecond. What counts
 * up is read first: were the process held up between the two, the other way round it would be too early.
 */
const beganAtMs = -performance.now() + Date.now() + 1

/**
 * The wall clock, but never behind the time that has passed since the program began: when it is set back, no key that
 * has run out is good again. Set forward it is believed, which ends keys too early rather than too late.
 */
export const systemClock: Clock = {
  wallMs: () => Math.max(Date.now(), Math.floor(beganAtMs + performance.now())),
  monotonicMs: () => performance.now(),
}
