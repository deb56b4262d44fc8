import { html as htmlTag, type SafeHtml } from '@remix-run/html-template'
import { relativeTime } from '../../../domain/form/instant.ts'
import { hasVisible } from '../../../domain/form/text.ts'
import type { KeyRecord } from '../../../domain/key/key-record.ts'
import { keyPath } from './paths.ts'

export type Html = SafeHtml
/** Content of a page: text, which is escaped, or HTML made by `html`. */
export type Piece = string | number | Html | null | readonly Piece[]
type Interpolation = Parameters<typeof htmlTag>[1]

/**
 * A template tag that escapes every value but HTML made by itself. Null renders nothing, a list its items.
 * An attribute's value is always quoted: only `&`, `<`, `>` and quotes are escaped.
 */
export function html(parts: TemplateStringsArray, ...values: readonly Piece[]): Html {
  return htmlTag(parts, ...values.map(toInterpolation))
}

/** The library's type takes no readonly list. */
function toInterpolation(piece: Piece): Interpolation {
  return isList(piece) ? piece.map(toInterpolation) : piece
}

/** Array.isArray does not narrow readonly arrays. */
function isList(piece: Piece): piece is readonly Piece[] {
  return Array.isArray(piece)
}

/** Renders text between backticks as code. */
export function withCode(text: string): Html {
  return html`${text.split('`').map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part))}`
}

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
  return html`<time datetime="${new Date(atMs).toISOString()}" title="${instantText(atMs)}" data-live>${relativeTime(atMs, nowMs)}</time>`
}

/** When a key or token was last used. */
export function lastUsed({ lastUsedAtMs }: { readonly lastUsedAtMs: number | null }, nowMs: number): Html {
  return lastUsedAtMs === null ? html`<span class="muted">Never used</span>` : ago(lastUsedAtMs, nowMs)
}

export function instant(atMs: number): Html {
  return localTime(atMs, 'minute', instantText(atMs))
}

/** To the millisecond. */
export function exactInstant(atMs: number): Html {
  return localTime(atMs, 'millisecond', exactText(atMs))
}

/** To the second, with the date unless it is today. */
export function clock(atMs: number, nowMs: number): Html {
  return localTime(atMs, 'second', clockText(atMs, nowMs))
}

/** An hour that began, with the date unless it is today. To the minute: some time zones are half an hour off. */
export function hourClock(atMs: number, nowMs: number): Html {
  return localTime(atMs, 'hour', clockText(atMs, nowMs).replace(':00 UTC', ' UTC'))
}

/** `18 Feb 2027, 09:00 to 15:00 UTC` */
export function instantSpan(fromMs: number, untilMs: number): Html {
  const time = (atMs: number) => new Date(atMs).toISOString().slice(11, 16)
  const start = localTime(fromMs, 'start', `${dateText(fromMs)}, ${time(fromMs)}`)
  return html`${start} to ${localTime(untilMs, 'end', `${time(untilMs)} UTC`)}`
}

/** UTC. The script writes the name of the browser's time zone at this time. */
export function zoneName(atMs: number): Html {
  return html`<span data-zone="${new Date(atMs).toISOString()}">UTC</span>`
}

type Precision = 'minute' | 'hour' | 'second' | 'millisecond' | 'start' | 'end'

/** In UTC. The script shows it in the time zone of the browser, and UTC as its tooltip. */
function localTime(atMs: number, precision: Precision, text: string): Html {
  return html`<time datetime="${new Date(atMs).toISOString()}" data-local="${precision}">${text}</time>`
}

export function exactInstantAndAgo(atMs: number, nowMs: number): Html {
  return html`${exactInstant(atMs)} <span class="muted">(${ago(atMs, nowMs)})</span>`
}

export function instantAndAgo(atMs: number, nowMs: number): Html {
  return html`${instant(atMs)} <span class="muted">(${ago(atMs, nowMs)})</span>`
}

/**
 * Invisible characters and those that change the direction of text. A joiner within an emoji stays; Hangul fillers and the
 * Braille blank count as letters in Unicode but are invisible.
 */
const INVISIBLE =
  /(?!(?<=\p{Extended_Pictographic}|\p{Emoji_Modifier}|\ufe0f)\u200d(?=\p{Extended_Pictographic}))[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u115f\u1160\u2800\u3164\uffa0]/gu

/** More would fill the page. */
const MAX_MARKED = 8

/**
 * Isolates the direction of user text and shows its invisible characters by their code point. Of a text without a visible
 * character each is shown, up to a number: a link made of it would have no width.
 */
export function markInvisible(text: string): Html {
  if (text !== '' && !hasVisible(text)) {
    const characters = [...text]
    const rest = characters.length > MAX_MARKED ? ['…'] : []
    return html`<bdi>${[...characters.slice(0, MAX_MARKED).map(mark), ...rest]}</bdi>`
  }
  const visible = text.split(INVISIBLE)
  const invisible = text.match(INVISIBLE) ?? []
  const parts = visible.flatMap((part, index) => {
    const character = invisible[index]
    return character === undefined ? [part] : [part, mark(character)]
  })
  return html`<bdi>${parts}</bdi>`
}

function mark(character: string): Html {
  const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')
  return html`<span class="unseen" title="Invisible character">U+${code}</span>`
}

/** A name as every page shows it: never as nothing, which would leave a link without a width. */
export function nameHtml({ name, id }: Pick<KeyRecord, 'name' | 'id'>): Html {
  return markInvisible(name === '' ? id : name)
}

/** A person's name, or who it was in words. @param name null if the audit log has none */
export function actorName(actor: string, name: string | null): Html {
  if (name !== null && name !== '') return html`<span title="${actor}">${markInvisible(name)}</span>`
  if (actor === 'admin-token') return html`the admin token`
  const [, kind, id = ''] = /^(person|token):(.*)$/s.exec(actor) ?? []
  return kind === undefined ? markInvisible(actor) : html`${kind} ${markInvisible(id)}`
}

export function keyLink({ record }: { readonly record: KeyRecord }): Html {
  return html`<a class="key-name" href="${keyPath(record.workspaceId, record.id)}">${nameHtml(record)}</a>`
}

export function hintHtml({ hint }: Pick<KeyRecord, 'hint'>): Html {
  return html`<code class="hint-of-key">${hint}</code>`
}

/** An id with a button that copies it. @param id of the element, which only it has in its page */
export function copyable(id: string, text: string): Html {
  return html`<span class="copyable"><code id="${id}">${text}</code> <button type="button" class="small" data-copies="${id}" aria-describedby="${id}" hidden>Copy</button></span>`
}

/**
 * A cell of a table. The label is shown where the table has no room for columns.
 * @param kind on a phone, `unnamed` shows no label, and `on-its-page` nothing
 */
export function cell(label: string, content: Piece, kind: 'unnamed' | 'on-its-page' | null = null): Html {
  return html`<td${kind === null ? null : html` class="${kind}"`}><span class="label" aria-hidden="true">${label}</span><span>${content}</span></td>`
}

/** Where a page stands in its list. */
export interface ListPlace {
  /** Where the next page starts; null on the last. */
  readonly nextCursor: string | null
  readonly isFirstPage: boolean
}

/**
 * Links to the first and to the next page of a list; nothing where one page holds all.
 * @param path of the page that starts at the cursor, or of the first
 */
export function pageLinks(
  { nextCursor, isFirstPage }: ListPlace,
  path: (cursor?: string) => string,
  { first, next } = { first: 'First page', next: 'Next page' },
): Html | null {
  if (isFirstPage && nextCursor === null) return null
  return html`<nav class="paging" aria-label="Pages">
    ${isFirstPage ? null : html`<a class="button" href="${path()}">${first}</a>`}
    ${nextCursor === null ? null : html`<a class="button" rel="next" href="${path(nextCursor)}">${next}</a>`}
  </nav>`
}

/**
 * A secret that is shown once. The page that holds it answers a form, so that no URL leads back to it; the script puts another one into
 * the history.
 * @param back the path of that other page
 * @param advice what Postern keeps of the secret, and what to do if it is lost
 */
export function secretCard(secret: string, { back, advice }: { back: string; advice: string }): Html {
  return html`<section class="card once" data-secret data-then="${back}" aria-labelledby="secret-title">
      <h2 id="secret-title">Copy the secret now</h2>
      <p class="notice warn"><strong>It is shown only once.</strong> ${advice}</p>
      <div class="copyable">
        <code id="secret" class="secret" tabindex="0" aria-label="Secret">${secret}</code>
        <button type="button" data-copies="secret" hidden>Copy</button>
      </div>
    </section>`
}

/** What a line of a list shows, and what it opens to. */
export interface OpeningLine {
  /** Its parts, an element each. */
  readonly summary: readonly Html[]
  readonly facts: readonly (Html | null)[]
}

/** A line for each item of a list, which opens to all that is known of it. */
export function openingLines(label: string, lines: readonly OpeningLine[]): Html {
  return html`<ul class="entries" aria-label="${label}">
    ${lines.map(
      ({ summary, facts }) => html`<li><details><summary>
      ${summary}
    </summary>
    <dl class="facts">
      ${facts}
    </dl></details></li>`,
    )}
  </ul>`
}

export function fact(label: string, value: Piece): Html {
  return html`<div><dt>${label}</dt><dd>${value}</dd></div>`
}
