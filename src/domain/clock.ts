/** Time is passed in as a value. Expiry uses the wall clock; ages and deadlines use the monotonic clock. */
export interface Clock {
  /** Milliseconds since the epoch. */
  wallMs(): number
  /** Milliseconds since a fixed moment of this process. Never decreases. */
  monotonicMs(): number
}

/**
 * The wall clock when the program started, rounded up because `Date.now()` truncates. The monotonic clock is read first:
 * a pause between the two reads then makes this value too late, never too early.
 */
const startedAtMs = -performance.now() + Date.now() + 1

/**
 * The wall clock, but never behind the monotonic time since the program started: after the clock is set back, an expired
 * key stays expired. If it is set forward, keys expire too early rather than too late.
 */
export const systemClock: Clock = {
  wallMs: () => Math.max(Date.now(), Math.floor(startedAtMs + performance.now())),
  monotonicMs: () => performance.now(),
}

/** Timers as a value, so that tests control time. Each call returns its cancellation. */
export interface Timers {
  after(delayMs: number, run: () => void): () => void
  every(periodMs: number, run: () => void): () => void
}

/** Timers, and turns of the event loop. */
export interface TurnTimers extends Timers {
  /** After everything that has arrived by now was read. */
  nextTurn(run: () => void): void
}

/** These timers do not keep the process alive. */
export const systemTimers: TurnTimers = {
  after(delayMs, run) {
    const timer = setTimeout(run, delayMs).unref()
    return () => clearTimeout(timer)
  },
  every(periodMs, run) {
    const timer = setInterval(run, periodMs).unref()
    return () => clearInterval(timer)
  },
  nextTurn(run) {
    setImmediate(run)
  },
}

/**
 * Waits no longer than so many ms, on a timer that ends with the wait.
 * @param late what to return then; it may throw
 */
export function withinDeadline<T>(work: Promise<T>, deadlineMs: number, late: () => T): Promise<T> {
  const { promise: expired, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, deadlineMs)
  return Promise.race([work, expired.then(late)]).finally(() => clearTimeout(timer))
}
