import { expect, test } from 'vitest'
import { type ChartRange, chartSpan } from '../../../src/console/usage/chart-range.ts'
import { lastUseAsOf, recentUseText } from '../../../src/console/usage/pages.ts'
import { lastPoints, usagePoints } from '../../../src/console/usage/read-usage.ts'
import {
  groupIntoBars,
  successRate,
  totalsBy,
  usageChart,
  usagePart,
} from '../../../src/console/usage/usage-chart.ts'

const NOW_MS = Date.parse('2026-11-20T04:31:15Z')
const row = (bucket: number, count: number, code = 'ok', route = 'files') => ({ bucket, count, code, route })
const textOf = (markup: unknown) => String(markup).replace(/<[^>]*>/g, '')
const bar = (label: string, served: number, notServed: number) => ({ atMs: NOW_MS, label, served, notServed })
const spanOf = (name: ChartRange['name'], from = '', to = '') => chartSpan({ name, from, to }, NOW_MS)

/** What is drawn: the class, top and bottom of each bar, in percent. */
function drawn(markup: string) {
  const bars = markup.matchAll(
    /class="(served|not-served|none)" x="[^"]*" y="([^"]*)%" width="[^"]*" height="([^"]*)%"/g,
  )
  return [...bars].map(([, name, y, height]) => ({
    name,
    top: Number(y),
    bottom: Number(y) + Number(height),
  }))
}

test('what was served stands above the line and what was not below, to one scale', () => {
  const markup = usageChart([bar('first', 60, 0), bar('second', 30, 20)], 'summary').toString()
  const [whole, half, below] = drawn(markup)
  const [, y] = /class="line" x1="0" x2="100%" y1="([^"]*)%"/.exec(markup) ?? []
  expect(Number(y)).toBeCloseTo(whole?.bottom ?? 0, 1)
  const height = (one: typeof whole) => (one?.bottom ?? 0) - (one?.top ?? 0)
  expect([whole?.name, half?.name, below?.name]).toEqual(['served', 'served', 'not-served'])
  expect(whole?.bottom).toBeCloseTo(below?.top ?? 0, 1)
  expect(height(half)).toBeCloseTo(height(whole) / 2, 1)
  expect(height(below)).toBeCloseTo(height(whole) / 3, 1)
})

test('one rejected request beside a million shows, and nothing leaves the drawing', () => {
  const markup = usageChart([bar('now', 1_000_000, 1)], 'summary').toString()
  expect(drawn(markup)).toHaveLength(2)
  for (const { top, bottom } of drawn(markup)) {
    expect(bottom - top).toBeGreaterThanOrEqual(1.49)
    expect(top).toBeGreaterThanOrEqual(0)
    expect(bottom).toBeLessThanOrEqual(100.01)
  }
})

test('an hour without requests is marked as such, and no labels become markup', () => {
  const [empty] = drawn(usageChart([bar('now', 0, 0), bar('now', 5, 0)], '').toString())
  expect(empty?.name).toBe('none')
  expect(usageChart([], '').toString()).toContain('<svg')
  const view = {
    span: spanOf('24h'),
    points: usagePoints(spanOf('24h').range, [row(spanOf('24h').range.from, 1)]),
    late: 0,
  }
  expect(textOf(usagePart(view, { path: '/', id: 'a' }))).toContain('No requests')
  expect(usageChart([bar('<b>', 1, 0)], '"><i>').toString()).not.toMatch(/<b>|<i>/)
})

test.each([
  ['a few', 3, ['0', '1', '2', '3']],
  ['hundreds', 420, ['0', '200', '400', '600']],
  ['thousands', 7_300, ['0', '2K', '4K', '6K', '8K']],
  ['millions', 1_200_000, ['0', '500K', '1M', '1.5M']],
])('the axis has round numbers: %s', (_, most, expected) => {
  const { range } = spanOf('24h')
  const markup = usagePart(
    { span: spanOf('24h'), points: usagePoints(range, [row(range.from, most)]), late: 0 },
    { path: '/', id: 'a' },
  ).toString()
  const [scale = ''] = /<svg class="scale".*?<\/svg>/s.exec(markup) ?? []
  expect([...scale.matchAll(/>([^<]+)<\/text>/g)].map(([, text]) => text).reverse()).toEqual(expected)
})

test('the axis names times on the hour, and days', () => {
  const times = (span: ReturnType<typeof spanOf>) => {
    const points = usagePoints(span.range, [row(span.range.from, 1)])
    const [axis = ''] =
      /<svg class="times".*?<\/svg>/s.exec(
        usagePart({ span, points, late: 0 }, { path: '/', id: 'a' }).toString(),
      ) ?? []
    return [...axis.matchAll(/>([^<]+)<\/text>/g)].map(([, text]) => text)
  }
  expect(times(spanOf('1h'))).toEqual(['03:45', '04:00', '04:15', '04:30'])
  expect(times(spanOf('24h'))).toEqual(['06:00', '12:00', '18:00', '20 Nov'])
  expect(times(spanOf('7d'))).toEqual(['15 Nov', '17 Nov', '19 Nov'])
  expect(times(spanOf('30d'))).toEqual(['22 Oct', '1 Nov', '11 Nov'])
  expect(times(spanOf('400d'))).toEqual(['Oct 2025', 'Feb 2026', 'Jul 2026', 'Nov 2026'])
})

test('every request of a range is in one bar of it', () => {
  const weeks = spanOf('400d')
  const points = usagePoints(weeks.range, [
    row(weeks.range.from, 3),
    row(weeks.range.from + 1, 5, 'key_expired'),
    row(weeks.range.until - 1, 7),
  ])
  const bars = groupIntoBars(points, weeks).map(({ atMs: _, ...rest }) => rest)
  expect(bars).toHaveLength(58)
  expect(bars[0]).toEqual({ label: '17 Oct 2025', served: 3, notServed: 0 })
  expect(bars[1]).toEqual({ label: '18 Oct 2025 to 24 Oct 2025', served: 0, notServed: 5 })
  expect([textOf(bars.at(-1)?.label), bars.at(-1)?.served]).toEqual(['14 Nov 2026 to 20 Nov 2026, so far', 7])
  const labels = (span: ReturnType<typeof spanOf>) =>
    groupIntoBars(usagePoints(span.range, []), span).map(({ label }) => textOf(label))
  const hours = labels(spanOf('24h'))
  expect([hours[0], hours[23]]).toEqual(['19 Nov 2026, 05:00 UTC', '20 Nov 2026, 04:00 UTC, so far'])
  const minutes = labels(spanOf('1h'))
  expect([minutes.length, minutes[0], minutes[11]]).toEqual([
    12,
    '20 Nov 2026, 03:35 UTC',
    '20 Nov 2026, 04:30 UTC, so far',
  ])
  const quarters = labels(spanOf('7d'))
  expect([quarters.length, quarters[0], quarters[27]]).toEqual([
    28,
    '13 Nov 2026, 06:00 to 12:00 UTC',
    '20 Nov 2026, 00:00 to 06:00 UTC, so far',
  ])
})

test('requests of the last hour that were reported late are named, with where they are counted', () => {
  const span = spanOf('1h')
  const points = usagePoints(span.range, [row(span.range.until - 1, 5)])
  const text = (late: number) => textOf(usagePart({ span, points, late }, { path: '/', id: 'a' }))
  expect(text(0)).not.toContain('Not drawn')
  const unknown = usagePart({ span, points: usagePoints(span.range, []), late: 3 }, { path: '/', id: 'a' })
  expect(textOf(unknown)).toMatch(/No requests in 1 hour whose minute is known\.\s*Not drawn: 3 more since/)
  expect(text(1200)).toContain(
    'Not drawn: 1,200 more since 20 Nov 2026, 03:00 UTC, which gateways reported late and by the hour. The chart of 24 hours has them.',
  )
})

test('other days are shown by hour while hours are kept, and else by day or week', () => {
  const shown = (from: string, to: string) => {
    const { label, bar: name, problem, range } = spanOf('custom', from, to)
    return [label, name, range.until - range.from, problem]
  }
  expect(shown('2026-11-19', '2026-11-19')).toEqual(['19 Nov 2026', 'hour', 24, null])
  expect(shown('2026-11-19', '')).toEqual(['19 Nov 2026 to 20 Nov 2026', 'hour', 29, null])
  expect(shown('2026-11-01', '2026-11-01')).toEqual(['1 Nov 2026', 'day', 1, null])
  expect(shown('2026-10-01', '2027-01-01')).toEqual(['1 Oct 2026 to 20 Nov 2026', 'day', 51, null])
  expect(shown('2026-01-01', '2026-06-30')).toEqual(['1 Jan 2026 to 30 Jun 2026', 'week', 181, null])
})

test.each([
  ['the wrong order', '2026-11-20', '2026-11-01'],
  ['a day that is not kept', '2025-01-01', '2026-11-01'],
  ['a day to come', '2027-01-01', '2027-01-02'],
  ['no day', '', '2026-11-01'],
  ['no date', '2026-11-01', '2026-13-40'],
  ['markup', '"><i>', ''],
])('other days that cannot be shown are named, and the last 24 hours are shown: %s', (_, from, to) => {
  const span = spanOf('custom', from, to)
  expect([span.name, span.range.until - span.range.from]).toEqual(['24h', 24])
  const text = usagePart({ span, points: [], late: 0 }, { path: '/', id: 'a' }).toString()
  expect(text).toContain('The first day must be within the last 400 days')
  expect(text).not.toContain('<i>')
})

test.each([
  [0, 0, '–'],
  [5, 0, '100%'],
  [999_999, 1, '99.99%'],
  [2, 1, '66.66%'],
  [0, 4, '0%'],
])('the success rate is rounded down: %d served, %d not', (served, notServed, expected) => {
  expect(successRate(served, notServed)).toBe(expected)
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
