import { parseInstant } from '../../domain/key/issue-key.ts'
import { oldestBucket } from './partitions.ts'

export type UsageStep = 'hour' | 'day'

const STEP_MS = { hour: 3_600_000, day: 86_400_000 } as const
/** Where the request does not say: a day of hours, or a month of days. */
const DEFAULT_POINTS = { hour: 24, day: 30 } as const

/** Whole hours or days since the epoch. */
export interface UsageRange {
  readonly step: UsageStep
  readonly from: number
  /** Exclusive. */
  readonly until: number
}

export interface UsageRangeText {
  readonly from?: string | undefined
  readonly to?: string | undefined
  readonly step?: UsageStep | undefined
}

export type ParsedRange =
  | { readonly ok: true; readonly range: UsageRange }
  | { readonly ok: false; readonly field: 'from' | 'to'; readonly expected: string }

const INSTANT_EXPECTED = 'an instant such as 2027-02-18T09:00:00Z'
const KEPT = { hour: 'within the last 14 days, for step=hour', day: 'within the last 400 days' } as const

/** The hours or days that hold a span of time: never more than are kept, which is at most 401 points. */
export function parseUsageRange({ from, to, step = 'hour' }: UsageRangeText, nowMs: number): ParsedRange {
  const toMs = to === undefined ? nowMs : parseInstant(to)
  if (toMs === null) return { ok: false, field: 'to', expected: INSTANT_EXPECTED }
  // What is to come has no counts, and zeros would look like some.
  const until = Math.ceil(Math.min(toMs, nowMs) / STEP_MS[step])
  const fromMs = from === undefined ? (until - DEFAULT_POINTS[step]) * STEP_MS[step] : parseInstant(from)
  if (fromMs === null) return { ok: false, field: 'from', expected: INSTANT_EXPECTED }
  const first = Math.floor(fromMs / STEP_MS[step])
  if (first >= until) return { ok: false, field: 'from', expected: 'in the past, and before to' }
  const oldest = oldestBucket(step === 'hour' ? 'usage_hours' : 'usage_days', nowMs)
  if (first < oldest) return { ok: false, field: 'from', expected: KEPT[step] }
  return { ok: true, range: { step, from: first, until } }
}

/** The last hours or days, the present one included. */
export function lastPoints(step: UsageStep, points: number, nowMs: number): UsageRange {
  const until = Math.floor(nowMs / STEP_MS[step]) + 1
  return { step, from: until - points, until }
}

export function msOf(step: UsageStep, bucket: number): number {
  return bucket * STEP_MS[step]
}
