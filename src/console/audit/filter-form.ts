import { isWorkspaceId } from '../../domain/key/key-record.ts'
import { holdsKeyForm } from '../../domain/key/secret.ts'
import { plainPasted } from '../../domain/pasted-text.ts'
import { AUDIT_ACTIONS, isAuditAction, WORKSPACE_AUDIT_ACTIONS } from '../platform/audit/entries.ts'
import {
  checkKeyId,
  checkSpan,
  foldedFilters,
  keyIdInput,
  searchInput,
} from '../platform/html/filter-parts.ts'
import { type FormFields, type Problems, select, textField } from '../platform/html/form-parts.ts'
import { type Html, html } from '../platform/html/html.ts'
import { auditPath } from '../platform/html/paths.ts'
import type { AuditFilter } from './rows.ts'

const MAX_ACTOR_LENGTH = 300
const FIELDS = ['workspace', 'action', 'keyId', 'actor', 'from', 'to'] as const

/** Conditions on entries as they stand in the address; empty for none. The workspace is one where entries of all are shown. */
export type FilterForm = Readonly<Record<(typeof FIELDS)[number], string>>

export function readFilterForm(query: FormFields): FilterForm {
  return {
    workspace: plainPasted(textField(query, 'workspace')),
    action: textField(query, 'action'),
    keyId: plainPasted(textField(query, 'keyId')),
    actor: textField(query, 'actor').trim(),
    from: textField(query, 'from'),
    to: textField(query, 'to'),
  }
}

/** Whether a key was pasted where its id belongs. */
export function holdsKey({ workspace, keyId, actor }: FilterForm, keyPrefix: string): boolean {
  return [workspace, keyId, actor].some(text => holdsKeyForm(text, keyPrefix))
}

type FilterResult =
  /** @property workspaces null for all */
  | { readonly ok: true; readonly filter: AuditFilter; readonly workspaces: readonly string[] | null }
  | { readonly ok: false; readonly problems: Problems }

/** @param workspaceId null: of all workspaces, or of the one that the form names */
export function checkFilterForm(
  { workspace, action, keyId, actor, from, to }: FilterForm,
  workspaceId: string | null,
): FilterResult {
  const problems = new Map<string, string>()
  const only = workspaceId ?? (workspace === '' ? null : workspace)
  if (only !== null && !isWorkspaceId(only))
    problems.set('workspace', 'Enter the id of a workspace, such as ws_1')
  if (action !== '' && !isAuditAction(action)) problems.set('action', 'Choose one of these actions')
  checkKeyId(keyId, problems)
  if (actor.length > MAX_ACTOR_LENGTH) problems.set('actor', `Enter at most ${MAX_ACTOR_LENGTH} characters`)
  const span = checkSpan({ from, to }, problems)
  if (problems.size > 0) return { ok: false, problems }
  const chosen = action !== '' && isAuditAction(action) ? { action } : {}
  return {
    ok: true,
    workspaces: only === null ? null : [only],
    filter: { ...chosen, keyId: keyId || undefined, actor: actor || undefined, ...span },
  }
}

/** A form whose response is at an address that can be shared. */
export function filterForm(workspaceId: string | null, form: FilterForm, problems: Problems): Html {
  const ofAll = workspaceId === null
  const actions = [{ value: '', label: 'Any' }, ...(ofAll ? AUDIT_ACTIONS : WORKSPACE_AUDIT_ACTIONS)]
  const action = select({ name: 'action', label: 'Action', value: form.action, options: actions, problems })
  const workspace = { name: 'workspace', label: 'Workspace' }
  const actor = { name: 'actor', label: 'Actor' }
  return html`<form class="search" role="search" method="get" action="${auditPath(workspaceId)}" novalidate data-submits>
    ${ofAll ? searchInput(workspace, form, problems, html`maxlength="128" placeholder="ws_1"`) : null}
    ${keyIdInput(form, problems)}
    ${searchInput(actor, form, problems, html`maxlength="${MAX_ACTOR_LENGTH}" placeholder="person:…"`)}
    ${foldedFilters({ name: 'action', field: action }, form, problems)}
    <button>Filter</button>
  </form>`
}
