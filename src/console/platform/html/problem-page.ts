import { type Html, html } from './html.ts'
import { barePage, type Frame, page } from './layout.ts'

export interface Problem {
  readonly title: string
  readonly text: string
  /** Shown to find the request in the log; null if the log has nothing to add. */
  readonly requestId: string | null
  /** Where to go; default: the start page. */
  readonly next?: { readonly path: string; readonly text: string }
}

const START = { path: '/', text: 'Go to the start page' }

/** @param frame null if no person is signed in */
export function problemPage(frame: Frame | null, { title, text, requestId, next = START }: Problem): Html {
  const main = html`<h1>${title}</h1>
    <p class="lead">${text}</p>
    ${requestId === null ? null : html`<p class="muted">Request id: <code>${requestId}</code></p>`}
    <p class="actions"><a class="button primary" href="${next.path}">${next.text}</a></p>`
  return frame === null ? barePage(title, main) : page(frame, { title, section: null, main })
}
