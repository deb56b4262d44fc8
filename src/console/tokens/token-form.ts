import { MAX_NAME_LENGTH } from '../../domain/key/key-fields.ts'
import { isWorkspaceId } from '../../domain/key/key-record.ts'
import { PERMISSIONS, type Permission } from '../platform/access/principal.ts'
import {
  type FormFields,
  group,
  listField,
  option,
  type Problems,
  readLines,
  select,
  textArea,
  textField,
  textInput,
} from '../platform/html/form-parts.ts'
import { type Html, html } from '../platform/html/html.ts'
import {
  DEFAULT_EXPIRY,
  decideExpiry,
  type ExpiryChoice,
  expiryField,
  findNameProblem,
  readExpiryChoice,
} from '../platform/html/name-and-expiry.ts'
import { WORKSPACE_ID_EXPECTED } from '../platform/http/fields.ts'
import { MAX_TOKEN_WORKSPACES, type TokenRequest } from './operations.ts'

/** Permissions that are often given together. */
const TEMPLATES = {
  read: { label: 'Read only', permissions: ['keys:read', 'audit:read'] },
  keys: { label: 'Issue and rotate keys', permissions: ['keys:write'] },
  everything: { label: 'Everything', permissions: PERMISSIONS },
  none: { label: 'Only those ticked below', permissions: [] },
} as const satisfies Readonly<Record<string, { label: string; permissions: readonly Permission[] }>>

const ALLOWS = {
  'keys:read': 'Read keys, their usage and rejections, and webhook deliveries',
  'keys:write': 'Also issue, import, edit, rotate, suspend, resume and revoke keys',
  'audit:read': 'Read the audit log',
  'tokens:write': 'Make, list and revoke admin tokens, with no more rights than its own',
} satisfies Readonly<Record<Permission, string>>

/** The form as received. */
export interface TokenForm extends ExpiryChoice {
  readonly name: string
  readonly template: string
  /** Beside those of the template. */
  readonly permissions: readonly string[]
  readonly workspaces: string
}

export const NEW_TOKEN_FORM: TokenForm = {
  name: '',
  template: 'read',
  permissions: [],
  workspaces: '',
  ...DEFAULT_EXPIRY,
}

export function readTokenForm(fields: FormFields): TokenForm {
  return {
    name: textField(fields, 'name').trim(),
    template: textField(fields, 'template'),
    permissions: listField(fields, 'permissions'),
    workspaces: readLines(fields, 'workspaces'),
    ...readExpiryChoice(fields),
  }
}

type TokenFormResult =
  | { readonly ok: true; readonly request: TokenRequest }
  | { readonly ok: false; readonly problems: Problems }

/** Reports all problems at once. The operation validates again. */
export function checkTokenForm(form: TokenForm, nowMs: number): TokenFormResult {
  const problems = new Map<string, string>()
  const nameProblem = findNameProblem(form.name)
  if (nameProblem !== null) problems.set('name', nameProblem)
  const permissions = chosenPermissions(form)
  if (permissions.length === 0) problems.set('permissions', 'Choose at least one permission')
  const workspaces = form.workspaces.split(/[\s,]+/).filter(id => id !== '')
  const wrong = workspaces.find(id => !isWorkspaceId(id))
  if (wrong !== undefined) problems.set('workspaces', `A workspace id has ${WORKSPACE_ID_EXPECTED}`)
  if (workspaces.length > MAX_TOKEN_WORKSPACES) {
    problems.set(
      'workspaces',
      `Name at most ${MAX_TOKEN_WORKSPACES} workspaces; these are ${workspaces.length}`,
    )
  }
  const expiry = decideExpiry(form, nowMs)
  if (!expiry.ok) for (const [field, text] of expiry.problems) problems.set(field, text)
  if (problems.size > 0 || !expiry.ok) return { ok: false, problems }
  const confined = workspaces.length === 0 ? {} : { workspaces }
  return { ok: true, request: { name: form.name, permissions, ...confined, ...expiry.expiry } }
}

/** Those of the template and those that are ticked; what is no permission is for the operation to reject. */
function chosenPermissions({ template, permissions }: TokenForm): readonly string[] {
  const given = Object.entries(TEMPLATES).find(([name]) => name === template)?.[1].permissions ?? []
  return [...new Set<string>([...given, ...permissions])]
}

export function tokenInputs(form: TokenForm, problems: Problems, nowMs: number): Html {
  const nameHint = 'The program that uses the token, such as “deploy pipeline”. The audit trail shows it'
  const workspacesHint =
    'Ids, one per line. The token sees no other workspace. Leave it empty for all, also those to come'
  const expiryHint = 'A token cannot be extended: make the next one before it expires'
  return html`${textInput({ name: 'name', label: 'Name', hint: nameHint, problems }, form.name, html`type="text" maxlength="${MAX_NAME_LENGTH * 2}" required`)}
    ${permissionInputs(form, problems)}
    ${textArea({ name: 'workspaces', label: 'Workspaces', hint: workspacesHint, problems }, form.workspaces)}
    ${expiryField({ label: 'Expiry', hint: expiryHint, problems }, form, nowMs)}`
}

function permissionInputs(form: TokenForm, problems: Problems): Html {
  const templates = Object.entries(TEMPLATES).map(([value, { label, permissions }]) => ({
    value,
    label: permissions.length === 0 ? label : `${label}: ${permissions.join(', ')}`,
  }))
  const boxes = PERMISSIONS.map(permission =>
    option({
      type: 'checkbox',
      name: 'permissions',
      value: permission,
      checked: form.permissions.includes(permission),
      label: html`<code>${permission}</code>`,
      hint: ALLOWS[permission],
    }),
  )
  const hint = 'Added to those of the choice above'
  return html`${select({ name: 'template', label: 'Permissions', value: form.template, options: templates, hint: 'Choose only what the program needs' })}
    ${group({ name: 'permissions', label: 'Single permissions', hint, problems }, boxes)}`
}
