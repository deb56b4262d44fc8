import type { RevocationProgress } from '../../registry/operations/revocation-progress.ts'
import { hidden } from '../forms/form-parts.ts'
import { type Html, html } from '../layout/html.ts'
import { type Frame, page } from '../layout/layout.ts'
import { markInvisible } from '../layout/mark-invisible.ts'
import { keyPath, keysPath } from '../layout/paths.ts'
import { hintOf, type KeyView, lastUseWarning } from './key-parts.ts'
import { revocationSteps } from './revocation-steps.ts'

/** Two ways to end a key at once. Both revoke it: `finish` is said of one that has a successor. */
export type RevokeAction = 'revoke' | 'finish'

export const REVOKE_TEXTS: Readonly<Record<RevokeAction, { title: string; button: string; lead: string }>> = {
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

/** OperationContext once more, with what will break. */
export function revokePage(frame: Frame, key: KeyView, act: RevokeAction): Html {
  const { record } = key
  const { title, lead } = REVOKE_TEXTS[act]
  const main = html`<p class="back"><a href="${keyPath(record.workspaceId, record.id)}">${markInvisible(record.name)}</a></p>
    <h1>${title}</h1>
    <p class="lead">${markInvisible(record.name)}, ${hintOf(record)}. ${lead}</p>
    <div class="card">${revokeForm(frame, key, act)}</div>`
  return page(frame, { title, section: 'keys', main })
}

export function revokeForm({ csrfToken, nowMs }: Frame, key: KeyView, act: RevokeAction): Html {
  const { record } = key
  const back = keyPath(record.workspaceId, record.id)
  return html`<form method="post" action="${keyPath(record.workspaceId, record.id, act)}">
    ${hidden({ _csrf: csrfToken })}
    ${lastUseWarning(key, nowMs)}
    <div class="actions"><button class="danger">${REVOKE_TEXTS[act].button}</button> <a href="${back}" data-closes>Keep it</a></div>
  </form>`
}

/** What became of a revocation, as far as the console knows. */
export interface Ended {
  readonly key: KeyView
  /** Whether it was this request that ended the key. */
  readonly changed: boolean
  readonly revocation: RevocationProgress
}

export function revokedPage(frame: Frame, { key, changed, revocation }: Ended): Html {
  const { record, state } = key
  const revoked = state === 'revoked'
  const main = html`<p class="back"><a href="${keysPath(record.workspaceId)}">Keys</a></p>
    <h1>${revoked ? 'The key is revoked' : 'The key had expired already'}</h1>
    <p class="lead">${markInvisible(record.name)}, ${hintOf(record)}</p>
    ${changed ? null : html`<p class="notice">Nothing changed just now: it had ended before.</p>`}
    ${revoked ? revocationSteps(revocation) : null}
    <p class="actions"><a class="button primary" href="${keysPath(record.workspaceId)}">All keys</a> <a href="${keyPath(record.workspaceId, record.id)}">Show this key</a></p>`
  return page(frame, { title: revoked ? 'Revoked' : 'Expired', section: 'keys', main })
}
