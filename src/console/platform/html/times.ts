import { relativeTime } from '../../../domain/relative-time.ts'
import { type Html, html } from './html.ts'

const DATE = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  timeZone: 'UTC',
})

/** `18 Feb 2027` */
export function dateText(atMs: number): string {
  return DATE.format(atMs)
}

/** `18 Feb 2027, 09:00 UTC` */
export function instantText(atMs: number): string {
  return `${dateText(atMs)}, ${new Date(atMs).toISOString().slice(11, 16)} UTC`
}

/** `04:31:10 UTC`, with the date unless it is today. */
export function clockText(atMs: number, nowMs: number): string {
  const day = dateText(atMs) === dateText(nowMs) ? '' : `${dateText(atMs)}, `
  return `${day}${new Date(atMs).toISOString().slice(11, 19)} UTC`
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
