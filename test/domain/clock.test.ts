import { afterEach, expect, test, vi } from 'vitest'
import { systemClock } from '../../src/domain/clock.ts'

afterEach(() => vi.restoreAllMocks())

test('after the wall clock is set back, the time does not go back', () => {
  const before = systemClock.wallMs()
  vi.spyOn(Date, 'now').mockReturnValue(before - 3_600_000)
  expect(systemClock.wallMs()).toBeGreaterThanOrEqual(before)
  expect(systemClock.wallMs() - before).toBeLessThan(60_000)
})

test('after the wall clock is set forward, the time follows', () => {
  const later = systemClock.wallMs() + 3_600_000
  vi.spyOn(Date, 'now').mockReturnValue(later)
  expect(systemClock.wallMs()).toBe(later)
})

test('the time is in whole milliseconds', () => {
  vi.spyOn(Date, 'now').mockReturnValue(0)
  expect(Number.isInteger(systemClock.wallMs())).toBe(true)
})
