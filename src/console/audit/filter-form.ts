import { parseInstant } from '../../domain/key/issue-key.ts'
import { holdsKeyForm } from '../../domain/key/secret.ts'
import { plainPasted } from '../../domain/pasted-text.ts'
import { isAuditAction, WORKSPACE_AUDIT_ACTIONS } from '../platform/audit/entries.ts'
import { isKeyId } from '../platform/database/ids.ts'
import { type FormFields, type Problems, select, textField, textInput } from '../platform/html/form-parts.ts'
import { type Html, html } from '../platform/html/html.ts'
import { auditPath } from '../platform/html/paths.ts'
import type { AuditFilter } from './rows.ts'

const MAX_ACTOR_LENGTH = 300
const FIELDS = ['action', 'keyId', 'actor', 'from', 'to'] as const

/** Conditions on entries as they stand in the address; empty for none. */
export type FilterForm = Readonly<Record<(typeof FIELDS)[number], string>>

export function readFilterForm(query: FormFields): FilterForm {
  return {
    action: textField(query, 'action'),
    keyId: plainPasted(textField(query, 'keyId')),
    actor: textField(query, 'actor').trim(),
    from: textField(query, 'from'),
    to: textField(query, 'to'),
  }
}

/** Whether a key was pasted where its id belongs. */
export function holdsKey({ keyId, actor }: FilterForm, keyPrefix: string): boolean {
  return [keyId, actor].some(text => holdsKeyForm(text, keyPrefix))
}

/** Of the address; an empty field is left out. */
export function filterQuery(form: FilterForm): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(form).filter(([, value]) => value !== ''))
}

type FilterResult =
  | { readonly ok: true; readonly filter: AuditFilter }
  | { readonly ok: false; readonly problems: Problems }

export function checkFilterForm({ action, keyId, actor, from, to }: FilterForm): FilterResult {
  const problems = new Map<string, string>()
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
export function filterForm(workspaceId: string, form: FilterForm, problems: Problems): Html {
  const text = (name: 'keyId' | 'actor', label: string, attributes: Html) =>
    textInput({ name, label, hint: null, problems }, form[name], attributes)
  const time = (name: 'from' | 'to', label: string) =>
    textInput({ name, label, hint: null, problems }, form[name], html`type="datetime-local"`)
  const actions = [{ value: '', label: 'Any' }, ...WORKSPACE_AUDIT_ACTIONS]
  return html`<form class="search" role="search" method="get" action="${auditPath(workspaceId)}" novalidate>
    ${text('keyId', 'Key id', html`type="search" maxlength="100" autocapitalize="off" spellcheck="false" placeholder="key_…"`)}
    ${text('actor', 'Actor', html`type="search" maxlength="${MAX_ACTOR_LENGTH}" autocapitalize="off" spellcheck="false" placeholder="person:…"`)}
    ${select({ name: 'action', label: 'Action', value: form.action, options: actions, problems })}
    ${time('from', 'From (UTC)')}
    ${time('to', 'Before (UTC)')}
    <button>Filter</button>
  </form>`
}
