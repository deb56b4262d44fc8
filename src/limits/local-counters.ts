import { LRUCache } from 'lru-cache'
import type { Count, RatePolicy } from '../domain/rate-limit.ts'

/** Beyond this number of callers, the least recently counted window is dropped and starts over. */
const MAX_COUNTERS = 100_000

interface Window {
  used: number
  /** Monotonic, ms. */
  readonly endsAtMs: number
}

/** One of the counters that a request increments. */
export interface Counter {
  readonly policy: RatePolicy
  /** Its name; see `counterOf`. */
  readonly name: string
  /** Requests that this process grants in a window. */
  readonly requests: number
}

/** Windows of this process only. Each starts with its first request, so that they do not all end at the same moment. */
export class LocalCounters {
  readonly #windows: LRUCache<string, Window>

  constructor(maxCounters = MAX_COUNTERS) {
    this.#windows = new LRUCache({ max: maxCounters })
  }

  get size(): number {
    return this.#windows.size
  }

  /** Increments all counters, or none if one is exhausted. @param nowMs monotonic */
  count(counters: readonly Counter[], nowMs: number): Count[] {
    const windows = counters.map(counter => this.#windowOf(counter, nowMs))
    const allowed = counters.every(({ requests }, index) => (windows[index]?.used ?? 0) < requests)
    return counters.map((counter, index) => {
      const window = windows[index] ?? begin(counter, nowMs)
      const exceeded = !allowed && window.used >= counter.requests
      if (allowed) window.used++
      const remaining = Math.max(0, counter.requests - window.used)
      return { policy: counter.policy, exceeded, remaining, resetMs: window.endsAtMs - nowMs }
    })
  }

  #windowOf(counter: Counter, nowMs: number): Window {
    const known = this.#windows.get(counter.name)
    if (known !== undefined && nowMs < known.endsAtMs) return known
    const window = begin(counter, nowMs)
    this.#windows.set(counter.name, window)
    return window
  }
}

function begin({ policy }: Counter, nowMs: number): Window {
  return { used: 0, endsAtMs: nowMs + policy.windowSeconds * 1000 }
}
