import { MAX_NAME_LENGTH } from '../../../domain/key/key-fields.ts'
import type { Problems } from '../../platform/html/form-fields.ts'
import {
  allowedAddresses,
  errorSummary,
  group,
  hidden,
  option,
  textInput,
} from '../../platform/html/form-parts.ts'
import { type Html, html } from '../../platform/html/html.ts'
import { type Frame, page } from '../../platform/html/layout.ts'
import { keysPath, newKeyPath } from '../../platform/html/paths.ts'
import { expiryField } from './expiry-field.ts'
import type { IssueForm } from './issue-form.ts'

export interface IssueView {
  readonly workspaceId: string
  /** Each with a description of what it grants. */
  readonly scopes: Readonly<Record<string, string>>
  readonly form: IssueForm
  readonly problems: Problems
  /** Makes a form that is submitted twice one request. */
  readonly onceToken: string
  /** Why a form without problems is shown again; null if it is not. */
  readonly notice: string | null
}

export function issuePage(frame: Frame, view: IssueView): Html {
  const { workspaceId, form, problems, onceToken, notice } = view
  const main = html`<p class="back"><a href="${keysPath(workspaceId)}">Keys</a></p>
    <h1>Issue a key</h1>
    <p class="lead">For workspace <strong>${workspaceId}</strong> only. The next page shows the secret once.</p>
    ${errorSummary(problems)}
    ${notice === null ? null : html`<p class="notice warn" role="alert">${notice}</p>`}
    <form class="card" method="post" action="${newKeyPath(workspaceId)}" novalidate>
      ${hidden({ _csrf: frame.csrfToken, once: onceToken })}
      ${textInput(
        {
          name: 'name',
          label: 'Name',
          hint: 'The program that uses the key, such as “build server” or “importer, staging”',
          problems,
        },
        form.name,
        html`type="text" maxlength="${MAX_NAME_LENGTH * 2}" required`,
      )}
      ${scopeField(view)}
      ${expiryField('Expiry', form, problems, frame.nowMs)}
      ${allowedAddresses(form.allowedCidrs, problems)}
      <div class="actions"><button class="primary">Issue key</button> <a href="${keysPath(workspaceId)}">Cancel</a></div>
    </form>`
  return page(frame, {
    title: problems.size > 0 ? 'Error: Issue a key' : 'Issue a key',
    section: 'keys',
    main,
  })
}

function scopeField({ scopes, form, problems }: IssueView): Html {
  const boxes = Object.entries(scopes).map(([scope, grants]) =>
    option({
      type: 'checkbox',
      name: 'scopes',
      value: scope,
      checked: form.scopes.includes(scope),
      label: html`<code>${scope}</code>`,
      hint: grants,
    }),
  )
  const hint = 'Choose only what the program needs. Rotation keeps the scopes'
  return group({ name: 'scopes', label: 'Scopes', hint, problems }, boxes)
}
