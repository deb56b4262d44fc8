import { LRUCache } from 'lru-cache'
import type { PolicyCount, RatePolicy } from '../domain/limits/rate-limit.ts'

/** Beyond this number of windows, the least recently used one is dropped; its next request starts a new window. */
const MAX_COUNTERS = 100_000

interface Window {
  used: number
  /** Monotonic, ms. */
  readonly endsAtMs: number
}

/** One of the counters that a request increments: the count of one policy for one workspace or key. */
export interface RateCounter {
  readonly policy: RatePolicy
  /** As returned by `counterNameOf`. */
  readonly name: string
  /** Requests that this process allows in a window. */
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
  count(counters: readonly RateCounter[], nowMs: number): PolicyCount[] {
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

  #windowOf(counter: RateCounter, nowMs: number): Window {
    const known = this.#windows.get(counter.name)
    if (known !== undefined && nowMs < known.endsAtMs) return known
    const window = begin(counter, nowMs)
    this.#windows.set(counter.name, window)
    return window
  }
}

function begin({ policy }: RateCounter, nowMs: number): Window {
  return { used: 0, endsAtMs: nowMs + policy.windowSeconds * 1000 }
}
