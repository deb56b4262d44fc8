import { type FormFields, textField } from '../../platform/html/form-fields.ts'
import { lastPoints, type UsageRange, type UsageStep } from '../usage-range.ts'

interface RangeRow {
  readonly label: string
  readonly step: UsageStep
  readonly points: number
  /** So that the bars of a long range are wide enough on a phone. */
  readonly pointsPerBar: number
  readonly bar: string
}

/** The spans that a chart shows: the value in the URL, and what people read. The first is the default. */
export const CHART_RANGES = {
  '24h': { label: '24 hours', step: 'hour', points: 24, pointsPerBar: 1, bar: 'hour' },
  '14d': { label: '14 days', step: 'day', points: 14, pointsPerBar: 1, bar: 'day' },
  '400d': { label: '400 days', step: 'day', points: 400, pointsPerBar: 7, bar: 'week' },
} as const satisfies Record<string, RangeRow>
export type ChartRange = keyof typeof CHART_RANGES

// `Object.keys` forgets the type of a closed record's keys.
export const CHART_RANGE_NAMES = Object.keys(CHART_RANGES) as readonly ChartRange[]

/** An unknown range counts as absent. */
export function readChartRange(query: FormFields): ChartRange {
  const sent = textField(query, 'range')
  return CHART_RANGE_NAMES.find(name => name === sent) ?? '24h'
}

export function pointsIn(range: ChartRange, nowMs: number): UsageRange {
  const { step, points } = CHART_RANGES[range]
  return lastPoints(step, points, nowMs)
}
