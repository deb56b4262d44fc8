import { plainSearch } from '../../../domain/form/text.ts'
import { type Html, html, type Piece } from './html.ts'

/** Lists the problems above a form, each a link to its field. */
export function errorSummary(problems: Problems): Html | null {
  if (problems.size === 0) return null
  const items = [...problems].map(([field, text]) => html`<li><a href="#${field}">${text}</a></li>`)
  return html`<div class="notice bad" role="alert" tabindex="-1" autofocus id="problems">
    <h2>${problems.size === 1 ? '1 problem' : `${problems.size} problems`} to fix</h2>
    <ul>${items}</ul>
  </div>`
}

/** What a form asks for, or all that is wrong with it. */
export type CheckedForm<Request> =
  | { readonly ok: true; readonly request: Request }
  | { readonly ok: false; readonly problems: Problems }

/** A form that makes a key or a token: as it is shown, and shown again. */
export interface ShownForm<Form> {
  readonly form: Form
  readonly problems?: Problems
  /** Why a form without problems is shown again; null if it is not. */
  readonly notice?: string | null
}

export function formTroubles({ problems, notice }: Required<Omit<ShownForm<unknown>, 'form'>>): Html {
  return html`${errorSummary(problems)}
    ${notice === null ? null : html`<p class="notice warn" role="alert">${notice}</p>`}`
}

/** The form's names for fields of the operation, where they differ. */
const FORM_NAMES: Readonly<Record<string, string>> = {
  expiresAt: 'date',
  expiresInDays: 'expiry',
  overlapSeconds: 'overlap',
}

interface RejectedField {
  readonly field: string
  readonly expected: string
}

/** A field that the operation rejects, although the form found no problem, for example because settings changed meanwhile. */
export function describeRejectedField({ field, expected }: RejectedField): Problems {
  return new Map([[FORM_NAMES[field] ?? field, `This must be ${expected}`]])
}

export interface Field {
  readonly name: string
  readonly label: Piece
  readonly hint: Piece
  readonly problems: Problems
}

/** @param attributes such as `type` or `maxlength` */
export function textInput(field: Field, value: string, attributes: Piece): Html {
  const { name, label } = field
  return html`<div class="field">
    <label for="${name}">${label}</label>
    ${fieldHint(field)}${fieldProblem(field)}
    <input id="${name}" name="${name}" value="${value}" autocomplete="off"${describedBy(field)}${invalid(field)} ${attributes}>
  </div>`
}

/** Several lines of text. */
export function textArea(field: Field, value: string): Html {
  const { name, label } = field
  return html`<div class="field">
    <label for="${name}">${label}</label>
    ${fieldHint(field)}${fieldProblem(field)}
    <textarea id="${name}" name="${name}" rows="3" spellcheck="false"${describedBy(field)}${invalid(field)}>
${value}</textarea>
  </div>`
}

export function group(field: Field, inputs: Piece): Html {
  return html`<fieldset class="field" id="${field.name}" tabindex="-1"${describedBy(field)}>
    <legend>${field.label}</legend>
    ${fieldHint(field)}${fieldProblem(field)}
    ${inputs}
  </fieldset>`
}

interface Option {
  readonly type: 'checkbox' | 'radio'
  readonly name: string
  readonly value: string
  readonly checked: boolean
  readonly label: Piece
  readonly hint?: Piece
}

export function option({ type, name, value, checked, label, hint }: Option): Html {
  const id = `${name}-${value}`
  const described = hint === undefined ? null : html` aria-describedby="${id}-hint"`
  const explained = hint === undefined ? null : html`<span class="hint" id="${id}-hint">${hint}</span>`
  return html`<div class="option">
    <input type="${type}" id="${id}" name="${name}" value="${value}"${described}${checked ? html` checked` : null}>
    <label for="${id}">${label}</label>${explained}
  </div>`
}

interface Selection extends Pick<Field, 'name' | 'label'>, Partial<Pick<Field, 'hint' | 'problems'>> {
  readonly value: string
  readonly options: readonly { readonly value: string; readonly label: string }[]
}

export function select({
  name,
  label,
  value,
  options,
  hint = null,
  problems = NO_PROBLEMS,
}: Selection): Html {
  const field = { name, label, hint, problems }
  const items = options.map(
    one =>
      html`<option value="${one.value}"${one.value === value ? html` selected` : null}>${one.label}</option>`,
  )
  return html`<div class="field"><label for="${name}">${label}</label>${fieldHint(field)}${fieldProblem(field)}<select id="${name}" name="${name}"${describedBy(field)}${invalid(field)}>${items}</select></div>`
}

export function hidden(values: Readonly<Record<string, string>>): Html {
  const inputs = Object.entries(values).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`,
  )
  return html`${inputs}`
}

interface Confirmation {
  readonly action: string
  /** What to know before answering. */
  readonly about: Piece
  readonly button: string
  /** Default: the change stops something. */
  readonly isHarmless?: boolean
  /** What declining is called. */
  readonly keep?: string
  /** Where declining leads. */
  readonly keepPath: string
  readonly fields?: Readonly<Record<string, string>>
}

/** A question before a change that may not be undone. It opens with the focus on declining. */
export function confirmForm(
  { csrfToken }: { readonly csrfToken: string },
  { action, about, button, isHarmless = false, keep = 'Keep it', keepPath, fields = {} }: Confirmation,
): Html {
  return html`<form method="post" action="${action}">
    ${hidden({ _csrf: csrfToken, ...fields })}
    ${about}
    <div class="actions"><a class="button" href="${keepPath}" data-closes autofocus>${keep}</a> <button class="${isHarmless ? 'primary' : 'danger'}">${button}</button></div>
  </form>`
}

function fieldHint({ name, hint }: Field): Html | null {
  return hint === null ? null : html`<p class="hint" id="${name}-hint">${hint}</p>`
}

function fieldProblem({ name, problems }: Field): Html | null {
  const text = problems.get(name)
  return text === undefined ? null : html`<p class="problem" id="${name}-problem">${text}</p>`
}

function describedBy({ name, hint, problems }: Field): Html | null {
  const ids = [...(hint === null ? [] : [`${name}-hint`]), ...(problems.has(name) ? [`${name}-problem`] : [])]
  return ids.length === 0 ? null : html` aria-describedby="${ids.join(' ')}"`
}

function invalid({ name, problems }: Field): Html | null {
  return problems.has(name) ? html` aria-invalid="true"` : null
}

/** A form as received: text for each name, or a list for a repeated name. */
export type FormFields = Readonly<Record<string, string | readonly string[] | undefined>>

/** Problems by field name, in the order of the page. */
export type Problems = ReadonlyMap<string, string>

export const NO_PROBLEMS: Problems = new Map()

/** @returns empty if the field is missing; the first of a repeated field */
export function textField(fields: FormFields, name: string): string {
  return listField(fields, name)[0] ?? ''
}

const MAX_SEARCH_LENGTH = 100

/** What a person typed or pasted into a field for searching. */
export function searchText(text: string): string {
  const plain = plainSearch(text)
    .toWellFormed()
    .replace(/\p{Cc}/gu, ' ')
    .trim()
  return [...plain].slice(0, MAX_SEARCH_LENGTH).join('')
}

/** Browsers send CR LF. */
export function readLines(fields: FormFields, name: string): string {
  return textField(fields, name).replaceAll('\r\n', '\n')
}

/** @param text items, separated by line breaks, spaces or commas */
export function splitList(text: string): string[] {
  return text.split(/[\s,]+/).filter(item => item !== '')
}

export function listField(fields: FormFields, name: string): readonly string[] {
  const value = fields[name]
  if (value === undefined) return []
  return typeof value === 'string' ? [value] : value
}
