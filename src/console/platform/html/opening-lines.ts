import { type Html, html, type Piece } from './html.ts'

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
