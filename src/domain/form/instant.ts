/** @returns the instant as JSON has it everywhere, `2027-02-18T23:59:59.000Z` (RFC 3339); null for none */
export function toInstant(ms: number): string
export function toInstant(ms: number | null): string | null
export function toInstant(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}

const INSTANT = /^(\d{4})-(\d\d)-(\d\d)T\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/

/** Completes the sentence "must be …". */
export const INSTANT_EXPECTED = 'an instant such as 2027-02-18T09:00:00Z'

/**
 * Reads an instant of RFC 3339, section 5.6, cut off to milliseconds. Rejects days and hours that do not exist: Date.parse reads 30
 * February as 2 March, and the hour 24 as midnight.
 */
export function parseInstant(text: string): number | null {
  if (text.includes('T24:')) return null
  const [, year, month, day] = INSTANT.exec(text) ?? []
  const ms = Date.parse(text)
  if (day === undefined || Number.isNaN(ms)) return null
  return Number(day) <= new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate() ? ms : null
}

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
/** Made at its first use: it takes milliseconds, which a gateway's start need not spend. */
let relativeFormat: Intl.RelativeTimeFormat | undefined

/** `in 90 days`, `3 minutes ago`, rounded to the nearest unit. Used by console and command line; console.js has the same code. */
export function relativeTime(atMs: number, nowMs: number): string {
  const differenceMs = atMs - nowMs
  const count = (unitMs: number) => Math.round(Math.abs(differenceMs) / unitMs)
  relativeFormat ??= new Intl.RelativeTimeFormat('en', { numeric: 'always' })
  const relative = relativeFormat
  const format = (amount: number, unit: Intl.RelativeTimeFormatUnit) =>
    relative.format(Math.sign(differenceMs) * amount, unit)
  if (count(MINUTE_MS) === 0) return differenceMs <= 0 ? 'just now' : 'in under a minute'
  if (count(MINUTE_MS) < 60) return format(count(MINUTE_MS), 'minute')
  if (count(HOUR_MS) < 24) return format(count(HOUR_MS), 'hour')
  return format(count(DAY_MS), 'day')
}
