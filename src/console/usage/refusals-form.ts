import { holdsKeyForm } from '../../domain/key/secret.ts'
import { plainPasted } from '../../domain/pasted-text.ts'
import {
  checkKeyId,
  checkSpan,
  foldedFilters,
  keyIdInput,
  searchInput,
} from '../platform/html/filter-parts.ts'
import { type FormFields, type Problems, select, textField } from '../platform/html/form-parts.ts'
import { type Html, html } from '../platform/html/html.ts'
import { refusalsPath } from '../platform/html/paths.ts'
import { MAX_REQUEST_ID, REFUSAL_CODES, type RefusalFilter } from './read-refusals.ts'

/** Conditions on rejections as they stand in the address; empty for none. */
export type RefusalForm = Readonly<Record<'request' | 'keyId' | 'code' | 'from' | 'to', string>>

export function readRefusalForm(query: FormFields): RefusalForm {
  return {
    request: plainPasted(textField(query, 'request')),
    keyId: plainPasted(textField(query, 'keyId')),
    code: textField(query, 'code'),
    from: textField(query, 'from'),
    to: textField(query, 'to'),
  }
}

/** Whether a key was pasted where an id belongs. */
export function holdsKey({ request, keyId }: RefusalForm, keyPrefix: string): boolean {
  return [request, keyId].some(text => holdsKeyForm(text, keyPrefix))
}

type FilterResult =
  | { readonly ok: true; readonly filter: RefusalFilter }
  | { readonly ok: false; readonly problems: Problems }

export function checkRefusalForm({ request, keyId, code, from, to }: RefusalForm): FilterResult {
  const problems = new Map<string, string>()
  if (request.length > MAX_REQUEST_ID) problems.set('request', `Enter at most ${MAX_REQUEST_ID} characters`)
  checkKeyId(keyId, problems)
  if (code !== '' && !REFUSAL_CODES.includes(code)) problems.set('code', 'Choose one of these codes')
  const span = checkSpan({ from, to }, problems)
  if (problems.size > 0) return { ok: false, problems }
  const chosen = { requestId: request || undefined, keyId: keyId || undefined, code: code || undefined }
  return { ok: true, filter: { ...chosen, ...span } }
}

/** A form whose response is at an address that can be shared. @param workspaceId null: of all workspaces */
export function refusalForm(workspaceId: string | null, form: RefusalForm, problems: Problems): Html {
  const options = [{ value: '', label: 'Any' }, ...REFUSAL_CODES.map(code => ({ value: code, label: code }))]
  const code = select({ name: 'code', label: 'Code', value: form.code, options, problems })
  const request = { name: 'request', label: 'Request id' }
  return html`<form class="search" role="search" method="get" action="${refusalsPath(workspaceId)}" novalidate data-submits>
    ${searchInput(request, form, problems, html`maxlength="${MAX_REQUEST_ID}" placeholder="X-Request-Id of the response"`)}
    ${keyIdInput(form, problems)}
    ${foldedFilters({ name: 'code', field: code }, form, problems)}
    <button>Filter</button>
  </form>`
}
