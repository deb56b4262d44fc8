import type { Revocation } from '../registry/operations/revocation.ts'
import { hidden } from './form-parts.ts'
import { type Html, html } from './html.ts'
import { hintOf, type KeyView, whatWillBreak } from './key-parts.ts'
import { type Frame, page } from './layout.ts'
import { keyPath, keysPath } from './paths.ts'
import { revocationSteps } from './revocation-steps.ts'
import { visibleText } from './visible-text.ts'

/** Two ways to end a key at once. Both revoke it: `finish` is said of one that has a successor. */
export type EndingAct = 'revoke' | 'finish'

export const ENDING_WORDS: Readonly<Record<EndingAct, { title: string; button: string; lead: string }>> = {
  revoke: {
    title: 'Revoke the key',
    button: 'Revoke it now',
    lead: 'Every gateway refuses it within a second, and nothing brings it back.',
  },
  finish: {
    title: 'Finish the rotation',
    button: 'Stop the old key now',
    lead: 'The old key is refused within a second, for good. Its successor is not touched.',
  },
}

/** Asked once more, with what will break. */
export function endingPage(frame: Frame, key: KeyView, act: EndingAct): Html {
  const { record } = key
  const { title, lead } = ENDING_WORDS[act]
  const main = html`<p class="back"><a href="${keyPath(record.workspaceId, record.id)}">${visibleText(record.name)}</a></p>
    <h1>${title}</h1>
    <p class="lead">${visibleText(record.name)}, ${hintOf(record)}. ${lead}</p>
    <div class="card">${endingForm(frame, key, act)}</div>`
  return page(frame, { title, section: 'keys', main })
}

export function endingForm({ csrfToken, nowMs }: Frame, key: KeyView, act: EndingAct): Html {
  const { record } = key
  const back = keyPath(record.workspaceId, record.id)
  return html`<form method="post" action="${keyPath(record.workspaceId, record.id, act)}">
    ${hidden({ _csrf: csrfToken })}
    ${whatWillBreak(key, nowMs)}
    <div class="actions"><button class="danger">${ENDING_WORDS[act].button}</button> <a href="${back}" data-closes>Keep it</a></div>
  </form>`
}

/** What became of a revocation, as far as the console knows. */
export interface Ended {
  readonly key: KeyView
  /** Whether it was this request that ended the key. */
  readonly changed: boolean
  readonly revocation: Revocation
}

export function endedPage(frame: Frame, { key, changed, revocation }: Ended): Html {
  const { record, state } = key
  const revoked = state === 'revoked'
  const main = html`<p class="back"><a href="${keysPath(record.workspaceId)}">Keys</a></p>
    <h1>${revoked ? 'The key is revoked' : 'The key had expired already'}</h1>
    <p class="lead">${visibleText(record.name)}, ${hintOf(record)}</p>
    ${changed ? null : html`<p class="notice">Nothing changed just now: it had ended before.</p>`}
    ${revoked ? revocationSteps(revocation) : null}
    <p class="actions"><a class="button primary" href="${keysPath(record.workspaceId)}">All keys</a> <a href="${keyPath(record.workspaceId, record.id)}">Show this key</a></p>`
  return page(frame, { title: revoked ? 'Revoked' : 'Expired', section: 'keys', main })
}
