import { expect, test } from 'vitest'
import { lastUseAsOf, recentUseText } from '../../../src/console/usage/key-usage.ts'
import { lastPoints, usagePoints } from '../../../src/console/usage/read-usage.ts'
import { groupIntoBars, totalsBy, usageChart } from '../../../src/console/usage/usage-chart.ts'

const NOW_MS = Date.parse('2026-11-20T04:31:15Z')
const row = (bucket: number, count: number, code = 'ok', route = 'files') => ({ bucket, count, code, route })
const textOf = (markup: { toString(): string }) => markup.toString().replace(/<[^>]*>/g, '')

/** What is drawn: the class, top and bottom of each bar. */
function drawn(markup: string) {
  const bars = markup.matchAll(
    /class="(served|not-served)" x="[^"]*" y="([^"]*)" width="[^"]*" height="([^"]*)"/g,
  )
  return [...bars].map(([, name, y, height]) => ({
    name,
    top: Number(y),
    bottom: Number(y) + Number(height),
  }))
}

test('what was served stands above the line and what was not below, to one scale', () => {
  const bars = [
    { label: 'first', served: 60, notServed: 0 },
    { label: 'second', served: 30, notServed: 20 },
  ]
  const markup = usageChart(bars, 'summary').toString()
  const [whole, half, below] = drawn(markup)
  const [, y, thickness] = /class="line" x="0" y="([^"]*)" width="20" height="([^"]*)"/.exec(markup) ?? []
  expect(Number(y) + Number(thickness) / 2).toBeCloseTo(whole?.bottom ?? 0, 1)
  const height = (bar: typeof whole) => (bar?.bottom ?? 0) - (bar?.top ?? 0)
  expect([whole?.name, half?.name, below?.name]).toEqual(['served', 'served', 'not-served'])
  expect(whole?.bottom).toBeCloseTo(below?.top ?? 0, 1)
  expect(height(half)).toBeCloseTo(height(whole) / 2, 1)
  expect(height(below)).toBeCloseTo(height(whole) / 3, 1)
})

test('one rejected request beside a million shows, and nothing leaves the drawing', () => {
  const markup = usageChart([{ label: 'now', served: 1_000_000, notServed: 1 }], 'summary').toString()
  for (const { top, bottom } of drawn(markup)) {
    expect(bottom - top).toBeGreaterThanOrEqual(1.5)
    expect(top).toBeGreaterThanOrEqual(0)
    expect(bottom).toBeLessThanOrEqual(100)
  }
  expect(markup).toContain('now: 1,000,000 served, 1 not served')
})

test('no requests are no bars, and no labels become markup', () => {
  expect(drawn(usageChart([{ label: 'now', served: 0, notServed: 0 }], '').toString())).toEqual([])
  expect(usageChart([], '').toString()).toContain('viewBox="0 0 0 100"')
  expect(usageChart([{ label: '<b>', served: 1, notServed: 0 }], '"><i>').toString()).not.toMatch(/<b>|<i>/)
})

test('every request of a range is in one bar of it', () => {
  const day = lastPoints('day', 400, NOW_MS)
  const points = usagePoints(day, [
    row(day.from, 3),
    row(day.from + 1, 5, 'key_expired'),
    row(day.until - 1, 7),
  ])
  const weeks = groupIntoBars(points, '400d')
  expect(weeks).toHaveLength(58)
  expect(weeks[0]).toEqual({ label: '17 Oct 2025', served: 3, notServed: 0 })
  expect(weeks[1]).toEqual({ label: '18 Oct 2025 to 24 Oct 2025', served: 0, notServed: 5 })
  expect(weeks.at(-1)).toEqual({ label: '14 Nov 2026 to 20 Nov 2026, so far', served: 7, notServed: 0 })
  const twoDays = groupIntoBars(usagePoints(lastPoints('day', 9, NOW_MS), []), '400d')[0]
  expect(twoDays?.label).toBe('12 Nov 2026 to 13 Nov 2026')
  const hours = groupIntoBars(usagePoints(lastPoints('hour', 24, NOW_MS), []), '24h')
  expect([hours[0]?.label, hours[23]?.label]).toEqual(['19 Nov 2026, 05:00', '20 Nov 2026, 04:00, so far'])
})

test('routes and codes are in the order of their requests', () => {
  const { from } = lastPoints('day', 14, NOW_MS)
  const points = usagePoints(lastPoints('day', 14, NOW_MS), [
    row(from, 3),
    row(from, 2, 'rate_limited'),
    row(from + 2, 9, 'ok', 'workspace'),
  ])
  expect(totalsBy(points, 'byRoute')).toEqual([
    ['workspace', 9],
    ['files', 5],
  ])
  expect(totalsBy(points, 'servedByRoute')).toEqual([
    ['workspace', 9],
    ['files', 3],
  ])
  expect(totalsBy(points, 'byCode')).toEqual([
    ['ok', 12],
    ['rate_limited', 2],
  ])
})

test.each([
  ['12 seconds before a report', 12_000, 5000, 'Last used 12 seconds ago, as of 04:31:10 UTC'],
  ['one second before', 1000, 5000, 'Last used 1 second ago, as of 04:31:10 UTC'],
  ['by a gateway whose clock is ahead', -3000, 5000, 'Last used 0 seconds ago, as of 04:31:10 UTC'],
  ['3 hours before', 3 * 3_600_000, 5000, 'Last used 3 hours ago, as of 04:31:10 UTC'],
  ['before reports ended', 12_000, 86_400_000, 'Last used 12 seconds ago, as of 19 Nov 2026, 04:31:15 UTC'],
])('the last use is shown as of the last report: %s', (_, beforeMs, reportedMs, expected) => {
  const asOfMs = NOW_MS - reportedMs
  expect(textOf(lastUseAsOf(asOfMs - beforeMs, asOfMs, NOW_MS))).toBe(expected)
})

test('a key that was never used says so, and the recent requests say since when', () => {
  expect(textOf(lastUseAsOf(null, NOW_MS, NOW_MS))).toBe('Never used, as of 04:31:15 UTC')
  expect(textOf(lastUseAsOf(NOW_MS - 120_000, null, NOW_MS))).toBe('Last used 2 minutes ago')
  const recent = { sinceMs: Date.parse('2026-11-20T03:00:00Z'), served: 1200, notServed: 3 }
  expect(textOf(recentUseText(recent, NOW_MS))).toBe('Requests since 03:00 UTC: 1,200 served, 3 not served')
})
