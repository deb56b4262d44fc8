import { type FormFields, textField } from '../platform/html/form-parts.ts'
import { dateText } from '../platform/html/html.ts'
import { isoDay } from '../platform/html/name-and-expiry.ts'
import { bucketStartMs, type ChartStep, lastPoints, type UsageRange } from './read-usage.ts'
import { oldestBucket } from './reports/rows.ts'

const DAY_MS = 86_400_000
const DAY_HOURS = 24

interface RangeRow {
  readonly label: string
  readonly step: ChartStep
  readonly points: number
  /** So that the bars of a long range are wide enough for a finger. */
  readonly pointsPerBar: number
  readonly bar: string
  /** Bars from one time on the axis to the next. */
  readonly barsPerTick: number
}

/** The spans that a chart shows: the value in the URL, and what people read. */
export const CHART_RANGES = {
  '1h': { label: '1 hour', step: '5 minutes', points: 12, pointsPerBar: 1, bar: '5 minutes', barsPerTick: 3 },
  '24h': { label: '24 hours', step: 'hour', points: 24, pointsPerBar: 1, bar: 'hour', barsPerTick: 6 },
  '7d': { label: '7 days', step: 'hour', points: 168, pointsPerBar: 6, bar: '6 hours', barsPerTick: 8 },
  '30d': { label: '30 days', step: 'day', points: 30, pointsPerBar: 1, bar: 'day', barsPerTick: 10 },
  '400d': { label: '400 days', step: 'day', points: 400, pointsPerBar: 7, bar: 'week', barsPerTick: 19 },
} as const satisfies Record<string, RangeRow>
type ChartRangeName = keyof typeof CHART_RANGES

// `Object.keys` forgets the type of a closed record's keys.
export const CHART_RANGE_NAMES = Object.keys(CHART_RANGES) as readonly ChartRangeName[]
export const CUSTOM = 'custom'
const CUSTOM_HOURS_DAYS = 2
const CUSTOM_DAYS_SHOWN = 60

/** What the URL asks for. */
export interface ChartRange {
  readonly name: ChartRangeName | typeof CUSTOM
  /** The first and last day of a custom range, as they were sent. */
  readonly from: string
  readonly to: string
}

/** An unknown range counts as absent. */
export function readChartRange(query: FormFields): ChartRange {
  const sent = textField(query, 'range')
  const name = sent === CUSTOM ? CUSTOM : (CHART_RANGE_NAMES.find(known => known === sent) ?? '24h')
  return { name, from: textField(query, 'from'), to: textField(query, 'to') }
}

/** What a chart shows. */
export interface ChartSpan extends RangeRow {
  readonly name: ChartRange['name']
  readonly range: UsageRange
  /** The first and last day. */
  readonly days: { readonly from: string; readonly to: string }
  /** Today, and the first day that is kept. */
  readonly bounds: { readonly from: string; readonly to: string }
  /** Whether more requests can come into the last bar. */
  readonly isOpen: boolean
  /** Why the custom range cannot be shown; null if it can. */
  readonly problem: string | null
}

/** The span that was asked for; in place of a custom one that is wrong, the default. */
export function chartSpan(asked: ChartRange, nowMs: number): ChartSpan {
  const custom = asked.name === CUSTOM ? customRange(asked, nowMs) : null
  const isWrong = asked.name === CUSTOM && custom === null
  const name = isWrong ? '24h' : asked.name
  const row = custom ?? presetRange(name === CUSTOM ? '24h' : name, nowMs)
  const { step, from, until } = row.range
  return {
    ...row,
    name,
    days: {
      from: isoDay(bucketStartMs(step, from)),
      to: isoDay(Math.min(nowMs, bucketStartMs(step, until) - 1)),
    },
    bounds: { from: isoDay(oldestBucket('usage_days', nowMs) * DAY_MS), to: isoDay(nowMs) },
    isOpen: bucketStartMs(step, until) > nowMs,
    problem: isWrong ? CUSTOM_EXPECTED : null,
  }
}

const CUSTOM_EXPECTED =
  'The first day must be within the last 400 days, and not after the last one. These are the last 24 hours instead.'

function presetRange(name: ChartRangeName, nowMs: number): RangeRow & { readonly range: UsageRange } {
  const row = CHART_RANGES[name]
  const range = lastPoints(row.step, row.points, nowMs)
  // Bars of several hours begin at 00:00, 06:00, …; the hours to come in the last one have no requests yet.
  const ahead =
    row.step === 'hour' ? (row.pointsPerBar - (range.until % row.pointsPerBar)) % row.pointsPerBar : 0
  return { ...row, range: { ...range, from: range.from + ahead, until: range.until + ahead } }
}

/** @returns null if the days are none, or in the wrong order */
function customRange(
  { from, to }: ChartRange,
  nowMs: number,
): (RangeRow & { readonly range: UsageRange }) | null {
  const today = Math.floor(nowMs / DAY_MS)
  const first = dayNumber(from)
  const last = Math.min(to === '' ? today : (dayNumber(to) ?? -1), today)
  if (first === null || first > last || first < oldestBucket('usage_days', nowMs)) return null
  const days = last - first + 1
  const label =
    days === 1 ? dateText(first * DAY_MS) : `${dateText(first * DAY_MS)} to ${dateText(last * DAY_MS)}`
  if (days <= CUSTOM_HOURS_DAYS && first * DAY_HOURS >= oldestBucket('usage_hours', nowMs)) {
    const until = Math.min((last + 1) * DAY_HOURS, lastPoints('hour', 1, nowMs).until)
    const range = { step: 'hour', from: first * DAY_HOURS, until } as const
    return { ...CHART_RANGES['24h'], label, range, barsPerTick: 6 * days }
  }
  const row = CHART_RANGES[days <= CUSTOM_DAYS_SHOWN ? '30d' : '400d']
  const barsPerTick = Math.ceil(days / row.pointsPerBar / 3)
  return { ...row, label, barsPerTick, points: days, range: { step: 'day', from: first, until: last + 1 } }
}

/** @returns null for what is no date */
function dayNumber(text: string): number | null {
  const ms = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(ms) ? null : ms / DAY_MS
}
