/** Time comes in as a value. Expiry is judged by the wall clock; ages and deadlines by one that never steps. */
export interface Clock {
  /** Milliseconds since the epoch. */
  wallMs(): number
  /** Milliseconds since some fixed moment of this process, never going back. */
  monotonicMs(): number
}

export const systemClock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
}
