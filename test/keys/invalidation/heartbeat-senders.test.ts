import { beforeEach, describe, expect, test } from 'vitest'
import { type Heartbeat, HeartbeatSenders } from '../../../src/keys/invalidation/heartbeat-senders.ts'

const MINUTE_MS = 60_000
const TWO_HOURS_MS = 7_200_000

let senders: HeartbeatSenders
beforeEach(() => {
  senders = new HeartbeatSenders()
})

/** A heartbeat that arrives `delayMs` after it was sent, by a constant that no one knows. */
function accepts(sentMs: number, delayMs = 0, more: Partial<Heartbeat> = {}): boolean {
  return senders.accepts(
    { sender: 'console-1', sentMs, delayMs, ageMs: 0, trueAgeMs: null, ...more },
    sentMs + delayMs,
  )
}

describe('the first heartbeat of a sender', () => {
  test('counts, however slow the channel seems: two clocks cannot be compared', () => {
    expect(accepts(1, 1_000_000)).toBe(true)
  })

  test('does not if it is more than two seconds old by the clock of the key service: it may be a replay', () => {
    const aged = (sentMs: number, trueAgeMs: number | null) => accepts(sentMs, 0, { trueAgeMs })
    expect([aged(1, 2_001), aged(2, 2_001), aged(3, 2_000)]).toEqual([false, false, true])
    // From now on its monotonic clock decides: the wall clock of either side may be set.
    expect([aged(4, 3_600_000), aged(5, -3_600_000), aged(5, 0)]).toEqual([true, true, false])
  })

  test('that was accepted before the clock of the key service was known proves nothing: the replay ends there', () => {
    expect([accepts(1), accepts(2)]).toEqual([true, true])
    expect([3, 4, 5].map(sentMs => accepts(sentMs, 0, { trueAgeMs: 60_000 }))).toEqual([false, false, false])
    expect(accepts(6, 0, { trueAgeMs: 100 })).toBe(true)
  })

  test('does not if it says that it is older than two hours, where the clock of the key service is unknown', () => {
    expect(accepts(1, 0, { ageMs: TWO_HOURS_MS })).toBe(true)
    expect(accepts(1, 0, { sender: 'console-2', ageMs: TWO_HOURS_MS + 1 })).toBe(false)
    expect(accepts(2, 0, { ageMs: TWO_HOURS_MS + 1 })).toBe(true)
  })
})

describe('a later heartbeat', () => {
  test('counts only if it was sent after the ones before', () => {
    expect([accepts(10), accepts(10), accepts(9), accepts(11)]).toEqual([true, false, false, true])
  })

  test('counts if it took at most 750 ms longer than the fastest one of its sender', () => {
    expect(accepts(1_000, 50)).toBe(true)
    expect(accepts(2_000, 20)).toBe(true)
    expect(accepts(3_000, 770)).toBe(true)
    expect(accepts(4_000, 771)).toBe(false)
    expect(accepts(5_000, 770, { sender: 'console-2' })).toBe(true)
  })

  test('is compared with the fastest one of five to ten minutes, because clocks drift', () => {
    expect(accepts(0, 0)).toBe(true)
    expect(accepts(5 * MINUTE_MS - 800, 800)).toBe(false)
    // A new baseline begins, and the one before still counts.
    expect(accepts(5 * MINUTE_MS + 1, 800)).toBe(false)
    expect(accepts(9 * MINUTE_MS, 800)).toBe(false)
    expect(accepts(10 * MINUTE_MS + 1_000, 800)).toBe(true)
  })
})

test('the console process that was silent longest is forgotten beyond 64 of them', () => {
  const process = (number: number) => ({ sender: `console-${number}` })
  for (let number = 0; number < 64; number++) accepts(100, 0, process(number))
  accepts(101, 0, process(0))
  accepts(100, 0, process(64))
  // Known ones reject a copy; a forgotten one looks like a new sender.
  expect(accepts(101, 0, process(0))).toBe(false)
  expect(accepts(100, 0, process(2))).toBe(false)
  expect(accepts(100, 0, process(1))).toBe(true)
})
