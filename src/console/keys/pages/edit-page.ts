import { MAX_DESCRIPTION_LENGTH, MAX_NAME_LENGTH } from '../../../domain/key/key-fields.ts'
import type { AuditEntry } from '../../platform/audit/entries.ts'
import type { Problems } from '../../platform/html/form-fields.ts'
import { allowedAddresses, errorSummary, hidden, textInput } from '../../platform/html/form-parts.ts'
import { type Html, html } from '../../platform/html/html.ts'
import { hintHtml, nameHtml } from '../../platform/html/key-names.ts'
import { type Frame, page } from '../../platform/html/layout.ts'
import { keyPath } from '../../platform/html/paths.ts'
import { instant } from '../../platform/html/times.ts'
import { changeList } from './change-list.ts'
import { type EditForm, earlierDays } from './edit-form.ts'
import type { KeyView } from './key-parts.ts'

export interface EditView {
  /** As it is now. */
  readonly key: KeyView
  readonly form: EditForm
  readonly problems: Problems
  /** Changes since the person opened the form, newest first; null if the form may be saved as it is. */
  readonly meanwhile: readonly AuditEntry[] | null
}

export function editPage(frame: Frame, view: EditView): Html {
  const { key, form, problems, meanwhile } = view
  const { record } = key
  const back = keyPath(record.workspaceId, record.id)
  const main = html`<p class="back"><a href="${back}">${nameHtml(record)}</a></p>
    <h1>Edit key</h1>
    <p class="lead">${nameHtml(record)}, ${hintHtml(record)}. The secret and the scopes stay as they are.</p>
    ${errorSummary(problems)}
    ${meanwhile === null ? null : conflict(meanwhile, frame.nowMs)}
    <form class="card" method="post" action="${keyPath(record.workspaceId, record.id, 'edit')}" novalidate>
      ${hidden({ _csrf: frame.csrfToken, version: String(record.version) })}
      ${textInput({ name: 'name', label: 'Name', hint: 'The program that uses the key', problems }, form.name, html`type="text" maxlength="${MAX_NAME_LENGTH * 2}" required`)}
      ${textInput({ name: 'description', label: 'Description', hint: 'Optional, such as the owner or a ticket. Clients of the API never see it', problems }, form.description, html`type="text" maxlength="${MAX_DESCRIPTION_LENGTH * 2}"`)}
      ${expiryField(view, frame.nowMs)}
      ${allowedAddresses(form.allowedCidrs, problems)}
      <div class="actions"><button class="primary">${meanwhile === null ? 'Save' : 'Save my entries'}</button> <a href="${back}">Cancel</a></div>
    </form>`
  const failed = problems.size > 0 || meanwhile !== null
  return page(frame, { title: failed ? 'Error: Edit key' : 'Edit key', section: 'keys', main })
}

/** An expiry can only become earlier. */
function expiryField({ key, form, problems }: EditView, nowMs: number): Html | null {
  const days = earlierDays(key.record, nowMs)
  if (days === null && !problems.has('date')) return null
  const hint = html`It expires ${instant(key.record.expiresAtMs)}. Enter a day to make it expire earlier, at the end of that day, UTC. This cannot be undone`
  const bounds = days === null ? null : html` min="${days.min}" max="${days.max}"`
  return textInput(
    { name: 'date', label: 'Earlier last day', hint, problems },
    form.date,
    html`type="date"${bounds}`,
  )
}

function conflict(meanwhile: readonly AuditEntry[], nowMs: number): Html {
  return html`<section class="notice warn" role="alert" tabindex="-1" autofocus aria-labelledby="conflict">
    <h2 id="conflict">This key was changed meanwhile</h2>
    <p>Nothing was saved. Fields that you did not change now hold the present values; saving replaces the others.</p>
    ${changeList(meanwhile, nowMs)}
  </section>`
}
