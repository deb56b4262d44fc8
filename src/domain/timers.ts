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
