import { type Html, html, type Piece } from './html.ts'

/** The label is shown where the table has no room for columns. */
export function cell(label: string, content: Piece): Html {
  return html`<td><span class="label" aria-hidden="true">${label}</span><span>${content}</span></td>`
}
