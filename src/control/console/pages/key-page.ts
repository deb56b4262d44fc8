import { type Html, html } from '../layout/html.ts'
import { type Frame, page } from '../layout/layout.ts'
import { markInvisible } from '../layout/mark-invisible.ts'
import { keyPath, keysPath } from '../layout/paths.ts'
import { ago, instant } from '../layout/times.ts'
import { facts, hintOf, isExpiring, type KeyView, lastUsed, stateBadge } from './key-parts.ts'
import { REVOKE_TEXTS, type RevokeAction, revokeForm } from './revoke-page.ts'

export interface KeyDetails {
  readonly key: KeyView
  /** The key that this one replaces, and the one that replaces it; null if there is none. */
  readonly predecessor: KeyView | null
  readonly successor: KeyView | null
}

export function keyPage(frame: Frame, details: KeyDetails): Html {
  const { key } = details
  const { record } = key
  const main = html`<p class="back"><a href="${keysPath(record.workspaceId)}">Keys</a></p>
    <div class="title"><h1>${markInvisible(record.name)}</h1>${frame.mayChange ? actions(key) : null}</div>
    ${warning(frame, key)}
    ${rotation(frame, details)}
    <section class="card" aria-labelledby="facts"><h2 id="facts">Details</h2>${facts(key, frame.nowMs)}</section>
    ${frame.mayChange ? dialogs(frame, details) : null}`
  return page(frame, { title: `Key ${record.hint}`, section: 'keys', main })
}

/** Links to the pages that change the key; the script opens them as dialogs. */
function actions({ record, state }: KeyView): Html | null {
  const path = (act: 'rotate' | RevokeAction) => keyPath(record.workspaceId, record.id, act)
  if (state === 'expired' || state === 'revoked') return null
  const rotate = html`<a class="button primary" href="${path('rotate')}">Rotate</a>`
  return html`<div class="actions">
    ${state === 'active' ? rotate : null}
    <a class="button danger" href="${path('revoke')}" data-opens="revoke-dialog">Revoke</a>
  </div>`
}

function warning({ mayChange, nowMs }: Frame, key: KeyView): Html | null {
  if (!isExpiring(key, nowMs)) return null
  const { record } = key
  return html`<p class="notice warn"><strong>This key expires ${ago(record.expiresAtMs, nowMs)}.</strong>
    Requests with it are rejected after that.${
      mayChange
        ? html` <a href="${keyPath(record.workspaceId, record.id, 'rotate')}">Rotate it</a> in time to replace it without an outage.`
        : null
    }</p>`
}

/** Both keys of a rotation with their last use, which shows when to finish. */
function rotation(frame: Frame, { key, predecessor, successor }: KeyDetails): Html | null {
  if (successor !== null) return rotationPart(frame, { old: key, fresh: successor, here: key })
  return predecessor === null ? null : rotationPart(frame, { old: predecessor, fresh: key, here: key })
}

interface RotationPart {
  readonly old: KeyView
  readonly fresh: KeyView
  /** The key of this page. */
  readonly here: KeyView
}

function rotationPart({ mayChange, nowMs }: Frame, { old, fresh, here }: RotationPart): Html {
  const { workspaceId, id, expiresAtMs } = old.record
  const finish = html`<p>When no client uses the old key any more: <a class="button" href="${keyPath(workspaceId, id, 'finish')}" data-opens="finish-dialog">Finish now</a></p>`
  const until = html`<p>The old key works until ${instant(expiresAtMs)} (${ago(expiresAtMs, nowMs)}).</p>`
  return html`<section class="card" aria-labelledby="rotation"><h2 id="rotation">Rotation</h2>
    <div class="pair">${side('Old key', old, here, nowMs)}${side('New key', fresh, here, nowMs)}</div>
    ${old.state === 'retiring' ? html`${until}${mayChange ? finish : null}` : null}
  </section>`
}

function side(label: string, key: KeyView, here: KeyView, nowMs: number): Html {
  const { record } = key
  const hint = hintOf(record)
  const link = html`<a href="${keyPath(record.workspaceId, record.id)}">${hint}</a>`
  return html`<div><h3>${label}</h3>
    <p>${key === here ? html`${hint} <span class="muted">(this key)</span>` : link} ${stateBadge(key)}</p>
    <p>Last used: ${lastUsed(key, nowMs)}</p>
  </div>`
}

function dialogs(frame: Frame, { key, predecessor }: KeyDetails): Html {
  const old = key.state === 'retiring' ? key : predecessor
  return html`${isUsable(key) ? dialog(frame, key, 'revoke') : null}${
    old?.state === 'retiring' ? dialog(frame, old, 'finish') : null
  }`
}

function isUsable({ state }: KeyView): boolean {
  return state === 'active' || state === 'retiring'
}

function dialog(frame: Frame, key: KeyView, act: RevokeAction): Html {
  const { title, lead } = REVOKE_TEXTS[act]
  return html`<dialog id="${act}-dialog" aria-labelledby="${act}-title">
    <h2 id="${act}-title">${title}</h2>
    <p>${markInvisible(key.record.name)}, ${hintOf(key.record)}. ${lead}</p>
    ${revokeForm(frame, key, act)}
  </dialog>`
}
