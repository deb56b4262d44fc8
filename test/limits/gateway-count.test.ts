import { describe, expect, test } from 'vitest'
import { GatewayCount } from '../../src/limits/rate-limiter.ts'
import { ManualClock } from '../support/manual-clock.ts'

const MINUTE_MS = 60_000

/** A count of three gateways as configured. */
function counting() {
  const clock = new ManualClock()
  return { clock, count: new GatewayCount(3, clock) }
}

describe('the number of gateways that share a limit', () => {
  test('is the configured one until the console has said it', () => {
    expect(counting().count.value).toBe(3)
  })

  test('grows at once, because each gateway would allow too much', () => {
    const { count } = counting()
    count.report(5)
    expect(count.value).toBe(5)
  })

  test('does not fall while a gateway restarts', () => {
    const { clock, count } = counting()
    count.report(2)
    clock.advance(MINUTE_MS - 1)
    count.report(2)
    count.report(3)
    clock.advance(MINUTE_MS)
    count.report(2)
    expect(count.value).toBe(3)
  })

  test('falls after a minute, to the highest number of that minute', () => {
    const { clock, count } = counting()
    count.report(1)
    count.report(2)
    clock.advance(MINUTE_MS)
    count.report(1)
    expect(count.value).toBe(2)
    count.report(1)
    clock.advance(MINUTE_MS)
    count.report(1)
    expect(count.value).toBe(1)
  })

  test('may be ten thousand', () => {
    const { count } = counting()
    count.report(10_000)
    expect(count.value).toBe(10_000)
  })

  test.each([0, -1, 1.5, Number.NaN, 10_001])('is never %d', reported => {
    const { clock, count } = counting()
    count.report(reported)
    clock.advance(MINUTE_MS)
    count.report(reported)
    expect(count.value).toBe(3)
  })
})
