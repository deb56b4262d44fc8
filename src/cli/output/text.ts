/** Control characters, and those that change the direction of text: a terminal would act on them. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu

/** Text from the console, safe to show at a terminal. */
export function plainText(text: string): string {
  return text.replace(UNPRINTABLE, '\u{fffd}')
}

const UNITS: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
]
const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'always' })

/** `in 89 days`, `3 minutes ago`; rounded towards now. */
export function relativeTime(instant: string, nowMs: number): string {
  const differenceMs = Date.parse(instant) - nowMs
  for (const [unit, unitMs] of UNITS) {
    const count = Math.trunc(differenceMs / unitMs)
    if (count !== 0) return RELATIVE.format(count, unit)
  }
  return differenceMs < 0 ? 'just now' : 'in under a minute'
}

/** `2027-02-18 09:00`, in UTC. */
export function minuteOf(instant: string): string {
  return instant.slice(0, 16).replace('T', ' ')
}
