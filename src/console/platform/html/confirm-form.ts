import { hidden } from './form-parts.ts'
import { type Html, html, type Piece } from './html.ts'
import type { Frame } from './layout.ts'

export interface Confirmation {
  readonly action: string
  /** What to know before answering. */
  readonly about: Piece
  readonly button: string
  /** Where declining leads. */
  readonly keepPath: string
  readonly fields?: Readonly<Record<string, string>>
}

/** A question before a change that may not be undone. It opens with the focus on declining. */
export function confirmForm(
  { csrfToken }: Pick<Frame, 'csrfToken'>,
  { action, about, button, keepPath, fields = {} }: Confirmation,
): Html {
  return html`<form method="post" action="${action}">
    ${hidden({ _csrf: csrfToken, ...fields })}
    ${about}
    <div class="actions"><a class="button" href="${keepPath}" data-closes autofocus>Keep it</a> <button class="danger">${button}</button></div>
  </form>`
}
