const DAY_MS = 86_400_000
const DAY_HOURS = 24
/** Hours are kept for two weeks, days for a year and some weeks. */
export const HOURS_KEPT_DAYS = 14
export const DAYS_KEPT_DAYS = 400
/** Partitions are made this far ahead: consoles may be stopped, or fail to make them, for a while. */
const AHEAD_DAYS = 3

/** A part of a table of counts: hours by day, days by month. */
export interface Partition {
  readonly name: string
  readonly table: 'usage_hours' | 'usage_days'
  /** The first bucket. */
  readonly from: number
  /** The bucket after the last. */
  readonly until: number
}

/** The partitions that counts of now may need: late reports, and those of the next days. */
export function partitionsFor(nowMs: number): Partition[] {
  const today = Math.floor(nowMs / DAY_MS)
  const days = Array.from(
    { length: HOURS_KEPT_DAYS + AHEAD_DAYS + 1 },
    (_, index) => today - HOURS_KEPT_DAYS + index,
  )
  const months = new Map(days.map(day => partitionOfDays(day)).map(partition => [partition.name, partition]))
  return [...days.map(partitionOfHours), ...months.values()]
}

/** The partitions that hold these buckets, and those between them. */
export function partitionsCovering(table: Partition['table'], first: number, last: number): Partition[] {
  const perDay = table === 'usage_hours' ? DAY_HOURS : 1
  const partitionOf = table === 'usage_hours' ? partitionOfHours : partitionOfDays
  const partitions: Partition[] = []
  let bucket = first
  while (bucket <= last) {
    const partition = partitionOf(Math.floor(bucket / perDay))
    partitions.push(partition)
    bucket = partition.until
  }
  return partitions
}

/** Partitions with nothing but what is past its retention. @param names of all that exist */
export function pastPartitions(names: readonly string[], nowMs: number): string[] {
  const today = Math.floor(nowMs / DAY_MS)
  return names.filter(name => {
    const endDay = endOf(name)
    if (endDay === null) return false
    return endDay <= today - (name.startsWith('usage_hours') ? HOURS_KEPT_DAYS : DAYS_KEPT_DAYS)
  })
}

/** The first bucket that is kept. */
export function oldestBucket(table: Partition['table'], nowMs: number): number {
  const today = Math.floor(nowMs / DAY_MS)
  return table === 'usage_hours' ? (today - HOURS_KEPT_DAYS) * DAY_HOURS : today - DAYS_KEPT_DAYS
}

function partitionOfHours(day: number): Partition {
  const name = `usage_hours_${dateOf(day).replaceAll('-', '')}`
  return { name, table: 'usage_hours', from: day * DAY_HOURS, until: (day + 1) * DAY_HOURS }
}

function partitionOfDays(day: number): Partition {
  const [year, month] = [Number(dateOf(day).slice(0, 4)), Number(dateOf(day).slice(5, 7))]
  const name = `usage_days_${dateOf(day).slice(0, 7).replace('-', '')}`
  return { name, table: 'usage_days', from: dayOf(year, month - 1, 1), until: dayOf(year, month, 1) }
}

/** The day after the last of a partition; null for a table with another name. */
function endOf(name: string): number | null {
  const [, year, month, day] = /^usage_(?:hours|days)_(\d{4})(\d\d)(\d\d)?$/.exec(name) ?? []
  if (year === undefined) return null
  if (day === undefined) return dayOf(Number(year), Number(month), 1)
  return dayOf(Number(year), Number(month) - 1, Number(day)) + 1
}

function dateOf(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10)
}

function dayOf(year: number, month: number, day: number): number {
  return Date.UTC(year, month, day) / DAY_MS
}
