import type { ChangeProgress } from '../../registry/operations/change-progress.ts'
import { hidden } from '../forms/form-parts.ts'
import { type Html, html } from '../layout/html.ts'
import { type Frame, page } from '../layout/layout.ts'
import { markInvisible } from '../layout/mark-invisible.ts'
import { keyPath, keysPath } from '../layout/paths.ts'
import { hintOf, type KeyView, lastUseWarning } from './key-parts.ts'
import { revocationSteps } from './revocation-steps.ts'

/** Both revoke a key: `finish` the old key of a rotation. */
export type RevokeAction = 'revoke' | 'finish'

export const REVOKE_TEXTS: Readonly<Record<RevokeAction, { title: string; button: string; lead: string }>> = {
  revoke: {
    title: 'Revoke key',
    button: 'Revoke now',
    lead: 'All gateways reject it within one second. This cannot be undone.',
  },
  finish: {
    title: 'Finish rotation',
    button: 'Revoke the old key now',
    lead: 'All gateways reject the old key within one second. This cannot be undone. The new key keeps working.',
  },
}

/** Asks for confirmation and shows the last use. */
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
    <div class="actions"><button class="danger">${REVOKE_TEXTS[act].button}</button> <a href="${back}" data-closes>Cancel</a></div>
  </form>`
}

export interface RevokedView {
  readonly key: KeyView
  /** Whether this request revoked the key. */
  readonly changed: boolean
  readonly revocation: ChangeProgress
}

export function revokedPage(frame: Frame, { key, changed, revocation }: RevokedView): Html {
  const { record, state } = key
  const revoked = state === 'revoked'
  const main = html`<p class="back"><a href="${keysPath(record.workspaceId)}">Keys</a></p>
    <h1>${revoked ? 'Key revoked' : 'Key already expired'}</h1>
    <p class="lead">${markInvisible(record.name)}, ${hintOf(record)}</p>
    ${changed ? null : html`<p class="notice">Nothing changed: the key had already been revoked or had expired.</p>`}
    ${revoked ? revocationSteps(revocation) : null}
    <p class="actions"><a class="button primary" href="${keysPath(record.workspaceId)}">All keys</a> <a href="${keyPath(record.workspaceId, record.id)}">Show this key</a></p>`
  return page(frame, { title: revoked ? 'Revoked' : 'Expired', section: 'keys', main })
}
