import type { IssueRequest } from '../../../domain/key/issue-key.ts'
import { isKeyName, MAX_NAME_LENGTH } from '../../../domain/key/key-fields.ts'
import { hasVisible } from '../../../domain/visible-text.ts'
import {
  type FormFields,
  listField,
  type Problems,
  readLines,
  textField,
} from '../../platform/html/form-fields.ts'
import { DEFAULT_EXPIRY, decideExpiry, type ExpiryChoice, readExpiryChoice } from './expiry-choice.ts'

/** The form as received. */
export interface IssueForm extends ExpiryChoice {
  readonly name: string
  readonly scopes: readonly string[]
  /** Addresses and networks, one a line. */
  readonly allowedCidrs: string
}

export function readIssueForm(fields: FormFields): IssueForm {
  const name = textField(fields, 'name').trim()
  const allowedCidrs = readLines(fields, 'allowedCidrs')
  return { name, scopes: listField(fields, 'scopes'), allowedCidrs, ...readExpiryChoice(fields) }
}

export const NEW_ISSUE_FORM: IssueForm = { name: '', scopes: [], allowedCidrs: '', ...DEFAULT_EXPIRY }

export type IssueFormResult =
  | { readonly ok: true; readonly request: IssueRequest }
  | { readonly ok: false; readonly problems: Problems }

/** Reports all problems at once. The registry validates again, and alone checks the networks. */
export function checkIssueForm(
  form: IssueForm,
  knownScopes: readonly string[],
  nowMs: number,
): IssueFormResult {
  const { name, scopes } = form
  const expiry = decideExpiry(form, nowMs)
  const nameProblem = problemOfName(name)
  const problems = new Map<string, string>()
  if (nameProblem !== null) problems.set('name', nameProblem)
  if (scopes.length === 0) problems.set('scopes', 'Choose at least one scope')
  else if (!scopes.every(scope => knownScopes.includes(scope))) {
    problems.set('scopes', 'A chosen scope no longer exists. Choose from these')
  }
  if (!expiry.ok) for (const [field, text] of expiry.problems) problems.set(field, text)
  if (problems.size > 0 || !expiry.ok) return { ok: false, problems }
  const allowedCidrs = splitCidrs(form.allowedCidrs)
  return { ok: true, request: { name, scopes, allowedCidrs, ...expiry.expiry } }
}

/** @param text networks, separated by line breaks, spaces or commas */
export function splitCidrs(text: string): string[] {
  return text.split(/[\s,]+/).filter(cidr => cidr !== '')
}

export function problemOfName(name: string): string | null {
  if (name === '') return 'Enter a name, such as “build server”'
  const length = [...name].length
  if (length > MAX_NAME_LENGTH) return `Shorten the name to ${MAX_NAME_LENGTH} characters; it has ${length}`
  if (!hasVisible(name)) return 'Enter a name with characters that are visible, such as “build server”'
  return isKeyName(name) ? null : 'Remove line breaks, tabs and other control characters from the name'
}
