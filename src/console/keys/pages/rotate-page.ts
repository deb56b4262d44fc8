import { confirmForm } from '../../platform/html/confirm-form.ts'
import type { Problems } from '../../platform/html/form-fields.ts'
import { errorSummary, group, hidden, option } from '../../platform/html/form-parts.ts'
import { type Html, html } from '../../platform/html/html.ts'
import { hintHtml, nameHtml } from '../../platform/html/key-names.ts'
import { type Frame, page } from '../../platform/html/layout.ts'
import { keyPath } from '../../platform/html/paths.ts'
import { type RecentUse, recentUseText } from '../../usage/index.ts'
import { expiryField } from './expiry-field.ts'
import { type KeyView, lastUsed, lastUseWarning, scopeList } from './key-parts.ts'
import { OVERLAPS, type RotateForm } from './rotate-form.ts'

export interface RotateView {
  readonly key: KeyView
  /** Null if it is not known. */
  readonly recent: RecentUse | null
  readonly form: RotateForm
  readonly problems: Problems
  readonly onceToken: string
  /** Why a form without problems is shown again; null if it is not. */
  readonly notice: string | null
}

/** Asks before a rotation that revokes the old key at once, as before any revocation. */
export function rotateNowPage(
  frame: Frame,
  { key, recent, form, onceToken }: Omit<RotateView, 'problems' | 'notice'>,
): Html {
  const { record } = key
  const title = 'Rotate and revoke'
  const { overlap, expiry, date } = form
  const main = html`<p class="back"><a href="${keyPath(record.workspaceId, record.id)}">${nameHtml(record)}</a></p>
    <h1>${title}</h1>
    <p class="lead">${nameHtml(record)}, ${hintHtml(record)}. Issues a new key and revokes this one. All gateways reject the old key within one second. This cannot be undone.</p>
    <div class="card">${confirmForm(frame, {
      action: keyPath(record.workspaceId, record.id, 'rotate'),
      about: lastUseWarning(key, recent, frame.nowMs),
      button: 'Rotate and revoke now',
      keepPath: keyPath(record.workspaceId, record.id),
      fields: { once: onceToken, overlap, expiry, date, confirmed: 'yes' },
    })}</div>`
  return page(frame, { title, section: 'keys', main })
}

export function rotatePage(frame: Frame, view: RotateView): Html {
  const { key, recent, form, problems, onceToken, notice } = view
  const { record } = key
  const back = keyPath(record.workspaceId, record.id)
  const overlap = OVERLAPS.map(({ seconds, label, hint }) =>
    option({
      type: 'radio',
      name: 'overlap',
      value: String(seconds),
      checked: form.overlap === String(seconds),
      label,
      hint,
    }),
  )
  const main = html`<p class="back"><a href="${back}">${nameHtml(record)}</a></p>
    <h1>Rotate key</h1>
    <p class="lead">Issues a new key with the same name and scopes. The old key, ${hintHtml(record)}, keeps working for as long as you choose.</p>
    ${errorSummary(problems)}
    ${notice === null ? null : html`<p class="notice warn" role="alert">${notice}</p>`}
    <form class="card" method="post" action="${keyPath(record.workspaceId, record.id, 'rotate')}" novalidate>
      ${hidden({ _csrf: frame.csrfToken, once: onceToken })}
      <dl class="facts">
        <div><dt>Scopes</dt><dd>${scopeList(record)}</dd></div>
        <div><dt>Last used</dt><dd>${lastUsed(key, frame.nowMs)}${recent === null ? null : html`<br>${recentUseText(recent, frame.nowMs)}`}</dd></div>
      </dl>
      ${group({ name: 'overlap', label: 'The old key keeps working for', hint: 'You can finish earlier, once no client uses it any more', problems }, overlap)}
      ${expiryField('Expiry of the new key', form, problems, frame.nowMs)}
      <div class="actions"><button class="primary">Rotate key</button> <a href="${back}">Cancel</a></div>
    </form>`
  return page(frame, { title: problems.size > 0 ? 'Error: Rotate' : 'Rotate', section: 'keys', main })
}
