import { type Html, html } from './html.ts'

const UNITS: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
]
const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'always' })
const DATE = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  timeZone: 'UTC',
})

/** `in 89 days`, `3 minutes ago`, truncated. console.js has the same code. */
export function relativeTime(atMs: number, nowMs: number): string {
  const differenceMs = atMs - nowMs
  for (const [unit, unitMs] of UNITS) {
    const count = Math.trunc(differenceMs / unitMs)
    if (count !== 0) return RELATIVE.format(count, unit)
  }
  return differenceMs <= 0 ? 'just now' : 'in under a minute'
}

/** `18 Feb 2027` */
export function dateText(atMs: number): string {
  return DATE.format(atMs)
}

/** `18 Feb 2027, 09:00 UTC` */
export function instantText(atMs: number): string {
  return `${dateText(atMs)}, ${new Date(atMs).toISOString().slice(11, 16)} UTC`
}

/** `18 Feb 2027, 09:00:00.125 UTC` */
export function exactText(atMs: number): string {
  return `${dateText(atMs)}, ${new Date(atMs).toISOString().slice(11, 23)} UTC`
}

/** Relative time, kept current by the script, with the instant as its tooltip. */
export function ago(atMs: number, nowMs: number): Html {
  const { iso, text } = { iso: new Date(atMs).toISOString(), text: instantText(atMs) }
  return html`<time datetime="${iso}" title="${text}" data-live>${relativeTime(atMs, nowMs)}</time>`
}

export function instant(atMs: number): Html {
  return html`<time datetime="${new Date(atMs).toISOString()}">${instantText(atMs)}</time>`
}

export function instantAndAgo(atMs: number, nowMs: number): Html {
  return html`${instant(atMs)} <span class="muted">(${ago(atMs, nowMs)})</span>`
}
