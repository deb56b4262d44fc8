import { describe, expect, test } from 'vitest'
import { currentWindow, type RatePolicy } from '../../src/domain/rate-limit.ts'
import { LocalCounters, type RateCounter } from '../../src/limits/rate-limiter.ts'

const MINUTE: RatePolicy = { name: 'minute', per: 'workspace', requests: 3, windowSeconds: 60 }
const SECOND: RatePolicy = { name: 'second', per: 'key', requests: 1, windowSeconds: 1 }

function counter(policy: RatePolicy, name = policy.name): RateCounter {
  return { policy, window: currentWindow(policy, 0), name, requests: policy.requests }
}

describe('a window in memory', () => {
  test('allows the configured number of requests, reports the remaining ones, then rejects', () => {
    const counters = new LocalCounters()
    const seen = [0, 10, 20, 30].map(nowMs => counters.count([counter(MINUTE)], nowMs)[0])
    expect(seen.map(count => [count?.exceeded, count?.remaining, count?.resetMs])).toEqual([
      [false, 2, 60_000],
      [false, 1, 59_990],
      [false, 0, 59_980],
      [true, 0, 59_970],
    ])
  })

  test('begins with its first request and ends exactly after its length', () => {
    const counters = new LocalCounters()
    const isExceeded = (nowMs: number) => counters.count([counter(SECOND)], nowMs)[0]?.exceeded
    expect([
      isExceeded(500),
      isExceeded(501),
      isExceeded(1_499),
      isExceeded(1_500),
      isExceeded(2_499),
      isExceeded(2_500),
    ]).toEqual([false, true, true, false, true, false])
  })

  test('is not used up by requests that another policy rejects', () => {
    const counters = new LocalCounters()
    const both = [counter(MINUTE), counter(SECOND)]
    counters.count(both, 0)
    for (let asked = 0; asked < 100; asked++) {
      expect(counters.count(both, 1).map(({ exceeded }) => exceeded)).toEqual([false, true])
    }
    expect(counters.count(both, 1_000).map(({ remaining }) => remaining)).toEqual([1, 0])
  })

  test('is dropped beyond the maximum number of windows: memory is bounded', () => {
    const counters = new LocalCounters(1_000)
    for (let caller = 0; caller < 100_000; caller++) counters.count([counter(MINUTE, `ws_${caller}`)], caller)
    expect(counters.size).toBe(1_000)
    const last = counters.count([counter(MINUTE, 'ws_99999')], 100_000)[0]
    const first = counters.count([counter(MINUTE, 'ws_0')], 100_000)[0]
    expect([last?.remaining, first?.remaining]).toEqual([1, 2])
  })
})
