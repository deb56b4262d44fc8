import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { currentWindow, type RatePolicy } from '../../src/domain/rate-limit.ts'

const MONTH: RatePolicy = { name: 'quota', per: 'workspace', requests: 1_000, window: 'month' }
const DAY_MS = 86_400_000
const instants = fc.integer({ min: Date.UTC(2000, 0), max: Date.UTC(2200, 0) })

const monthAt = (instant: string | number) => currentWindow(MONTH, new Date(instant).getTime())

describe('a window of a calendar month', () => {
  test.each([
    ['2026-01-31T12:00:00Z', '2026-01', 31],
    ['2026-02-10T00:00:00Z', '2026-02', 28],
    ['2028-02-29T23:59:59Z', '2028-02', 29],
    ['2100-02-01T00:00:00Z', '2100-02', 28],
    ['2026-04-01T00:00:00Z', '2026-04', 30],
    ['2026-12-31T23:59:59.999Z', '2026-12', 31],
  ])('at %s is %s, of %i days', (instant, name, days) => {
    expect(monthAt(instant)).toMatchObject({ name, seconds: days * 86_400 })
  })

  test('ends at the first moment of the next month, in UTC wherever the gateway is', () => {
    expect(monthAt('2026-12-31T23:59:59.999Z').leftMs).toBe(1)
    expect(monthAt('2027-01-01T00:00:00Z')).toMatchObject({ name: '2027-01', leftMs: 31 * DAY_MS })
  })

  test('contains every moment from its begin until its end, and no other', () => {
    fc.assert(
      fc.property(instants, nowMs => {
        const { name, seconds, leftMs } = currentWindow(MONTH, nowMs)
        const endMs = nowMs + leftMs
        const beginMs = endMs - seconds * 1000
        expect(beginMs).toBeLessThanOrEqual(nowMs)
        expect(leftMs).toBeGreaterThan(0)
        for (const inside of [beginMs, endMs - 1]) expect(currentWindow(MONTH, inside).name).toBe(name)
        for (const outside of [beginMs - 1, endMs]) expect(currentWindow(MONTH, outside).name).not.toBe(name)
        expect(new Date(endMs).toISOString()).toMatch(/-01T00:00:00\.000Z$/)
      }),
    )
  })

  test('after a step of the clock is that of the new time, and ends when every other gateway says so', () => {
    fc.assert(
      fc.property(instants, fc.integer({ min: -40 * DAY_MS, max: 40 * DAY_MS }), (nowMs, stepMs) => {
        const [before, after] = [currentWindow(MONTH, nowMs), currentWindow(MONTH, nowMs + stepMs)]
        const sameEnd = nowMs + before.leftMs === nowMs + stepMs + after.leftMs
        expect(sameEnd).toBe(before.name === after.name)
      }),
    )
  })

  test('is kept in Redis until a day after its end, for gateways whose clocks are behind, and no longer', () => {
    fc.assert(
      fc.property(instants, nowMs => {
        const { leftMs, keptSeconds } = currentWindow(MONTH, nowMs)
        const afterEndMs = keptSeconds * 1000 - leftMs
        expect(afterEndMs).toBeGreaterThanOrEqual(DAY_MS)
        expect(afterEndMs).toBeLessThan(DAY_MS + 1000)
      }),
    )
  })
})

test('a window of seconds begins with its first request, at any time', () => {
  fc.assert(
    fc.property(instants, fc.integer({ min: 1, max: 86_400 }), (nowMs, windowSeconds) => {
      const policy: RatePolicy = { name: 'short', per: 'key', requests: 1, windowSeconds }
      expect(currentWindow(policy, nowMs)).toEqual({
        name: String(windowSeconds),
        seconds: windowSeconds,
        leftMs: windowSeconds * 1000,
        keptSeconds: windowSeconds,
      })
    }),
  )
})
