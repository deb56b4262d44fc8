import { isKeyId } from '../../domain/id-form.ts'
import { parseInstant } from '../../domain/key/issue-key.ts'
import { isWorkspaceId } from '../../domain/key/key-record.ts'
import { holdsKeyForm } from '../../domain/key/secret.ts'
import { plainPasted } from '../../domain/pasted-text.ts'
import { AUDIT_ACTIONS, isAuditAction, WORKSPACE_AUDIT_ACTIONS } from '../platform/audit/entries.ts'
import { type FormFields, type Problems, select, textField, textInput } from '../platform/html/form-parts.ts'
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

/** Of the address; an empty field is left out. */
export function filterQuery(form: FilterForm): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(form).filter(([, value]) => value !== ''))
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
  if (keyId !== '' && !isKeyId(keyId)) {
    problems.set('keyId', 'Enter the id of a key: “key_” and 26 characters, as its page shows it')
  }
  if (actor.length > MAX_ACTOR_LENGTH) problems.set('actor', `Enter at most ${MAX_ACTOR_LENGTH} characters`)
  const [fromMs, toMs] = [readTime(from), readTime(to)]
  if (fromMs === null) problems.set('from', TIME_EXPECTED)
  if (toMs === null) problems.set('to', TIME_EXPECTED)
  else if (toMs !== undefined && fromMs !== null && fromMs !== undefined && toMs <= fromMs) {
    problems.set('to', 'Enter a time after the first one')
  }
  if (problems.size > 0 || fromMs === null || toMs === null) return { ok: false, problems }
  const chosen = action !== '' && isAuditAction(action) ? { action } : {}
  return {
    ok: true,
    workspaces: only === null ? null : [only],
    filter: { ...chosen, keyId: keyId || undefined, actor: actor || undefined, fromMs, toMs },
  }
}

const TIME_EXPECTED = 'Enter a day and time in UTC, such as 2027-02-18T09:00'

/** @returns undefined for none; null for what is no time */
function readTime(text: string): number | undefined | null {
  if (text === '') return undefined
  // Browsers leave the seconds out where they are zero.
  return parseInstant(`${text}${text.length === 'yyyy-mm-ddThh:mm'.length ? ':00' : ''}Z`)
}

/** A form whose response is at an address that can be shared. */
export function filterForm(workspaceId: string | null, form: FilterForm, problems: Problems): Html {
  const text = (name: 'workspace' | 'keyId' | 'actor', label: string, attributes: Html) =>
    textInput({ name, label, hint: null, problems }, form[name], attributes)
  const time = (name: 'from' | 'to', label: string) =>
    textInput({ name, label, hint: null, problems }, form[name], html`type="datetime-local"`)
  const ofAll = workspaceId === null
  const actions = [{ value: '', label: 'Any' }, ...(ofAll ? AUDIT_ACTIONS : WORKSPACE_AUDIT_ACTIONS)]
  const chosen = [form.action, form.from, form.to].filter(value => value !== '').length
  return html`<form class="search" role="search" method="get" action="${auditPath(workspaceId)}" novalidate data-submits>
    ${ofAll ? text('workspace', 'Workspace', html`type="search" maxlength="128" autocapitalize="off" spellcheck="false" placeholder="ws_1"`) : null}
    ${text('keyId', 'Key id', html`type="search" maxlength="100" autocapitalize="off" spellcheck="false" placeholder="key_…"`)}
    ${text('actor', 'Actor', html`type="search" maxlength="${MAX_ACTOR_LENGTH}" autocapitalize="off" spellcheck="false" placeholder="person:…"`)}
    <details class="fold"${problems.size > 0 ? html` open` : null}><summary>Filters${chosen === 0 ? null : html` <span class="count">${chosen}</span>`}</summary><div>
    ${select({ name: 'action', label: 'Action', value: form.action, options: actions, problems })}
    ${time('from', 'From (UTC)')}
    ${time('to', 'Before (UTC)')}
    </div></details>
    <button>Filter</button>
  </form>`
}
