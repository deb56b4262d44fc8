import { DEFAULT_LIFETIME_DAYS, type IssueRequest, planExpiry } from '../../domain/key/issue-key.ts'
import {
  BLANK_FIELDS,
  type ChosenField,
  type ChosenFields,
  isKeyName,
  MAX_NAME_LENGTH,
  type RequestedFields,
} from '../../domain/key/key-fields.ts'
import { eachText, KEY_TEXTS, TEXT_NAMES } from '../../domain/key/key-texts.ts'
import { hasVisible } from '../../domain/key/visible-text.ts'
import type { AuditValue } from '../platform/audit/entries.ts'
import {
  type FormFields,
  group,
  option,
  type Problems,
  readLines,
  select,
  textArea,
  textField,
  textInput,
} from '../platform/html/form-parts.ts'
import { dateText, type Html, html, markInvisible, type Piece } from '../platform/html/html.ts'

const EXPIRY_DAYS = [7, 30, 90, 180, 365] as const
const DAY_MS = 86_400_000
const MAX_DAYS = 365

/** The fields of a key that people choose, as forms have them. */
export type ChosenForm = Readonly<Record<ChosenField, string>>

export const BLANK_FORM = fillChosenForm(BLANK_FIELDS)

export function fillChosenForm({ name, allowedCidrs, plan, ...texts }: ChosenFields): ChosenForm {
  return {
    name,
    ...eachText(text => texts[text] ?? ''),
    allowedCidrs: allowedCidrs.join('\n'),
    plan: plan ?? '',
  }
}

export function readChosenForm(fields: FormFields): ChosenForm {
  return {
    name: textField(fields, 'name').trim(),
    ...eachText(text => textField(fields, text).trim()),
    allowedCidrs: readLines(fields, 'allowedCidrs'),
    plan: textField(fields, 'plan').trim(),
  }
}

/** The registry checks them. */
export function requestedFields({
  name,
  allowedCidrs,
  plan,
  ...texts
}: ChosenForm): RequestedFields & { name: string } {
  return { name, ...eachText(text => texts[text]), allowedCidrs: splitCidrs(allowedCidrs), plan }
}

/** @param text networks, separated by line breaks, spaces or commas */
function splitCidrs(text: string): string[] {
  return text.split(/[\s,]+/).filter(cidr => cidr !== '')
}

export function problemOfName(name: string): string | null {
  if (name === '') return 'Enter a name, such as “build server”'
  const length = [...name].length
  if (length > MAX_NAME_LENGTH) return `Shorten the name to ${MAX_NAME_LENGTH} characters; it has ${length}`
  if (!hasVisible(name)) return 'Enter a name with characters that are visible, such as “build server”'
  return isKeyName(name) ? null : 'Remove line breaks, tabs and other control characters from the name'
}

export function nameInput({ name }: ChosenForm, problems: Problems, hint: string): Html {
  const field = { name: 'name', label: 'Name', hint, problems }
  return textInput(field, name, html`type="text" maxlength="${MAX_NAME_LENGTH * 2}" required`)
}

export function textInputs(form: ChosenForm, problems: Problems): Html {
  const inputs = TEXT_NAMES.map(name => {
    const { label, hint, maxLength } = KEY_TEXTS[name]
    return textInput(
      { name, label, hint, problems },
      form[name],
      html`type="text" maxlength="${maxLength * 2}"`,
    )
  })
  return html`${inputs}`
}

/**
 * Where requests with a key may come from, and which rate limits hold for them.
 * @param knownPlans null where the person chooses no plan
 */
export function restrictionInputs(
  { allowedCidrs, plan }: ChosenForm,
  problems: Problems,
  knownPlans: readonly string[] | null,
): Html {
  const hint = html`IP addresses or networks, one per line, such as <code>192.0.2.0/24</code>. Gateways reject requests from other addresses. Leave it empty to allow every address`
  const cidrs = textArea({ name: 'allowedCidrs', label: ALLOWED_ADDRESSES, hint, problems }, allowedCidrs)
  return html`${cidrs}${knownPlans === null ? null : planInput(plan, problems, knownPlans)}`
}

/** @returns null where there is nothing to choose. A plan that is no longer configured stays until another one is chosen */
export function planInput(plan: string, problems: Problems, knownPlans: readonly string[]): Html | null {
  if (knownPlans.length === 0 && plan === '') return null
  const gone = plan === '' || knownPlans.includes(plan) ? [] : [plan]
  const options = [
    { value: '', label: 'None' },
    ...knownPlans.map(name => ({ value: name, label: name })),
    ...gone.map(name => ({ value: name, label: `${name} (no longer configured)` })),
  ]
  const hint = 'Whose rate limits hold for the key'
  return select({ name: 'plan', label: PLAN, value: plan, options, hint, problems })
}

const ALLOWED_ADDRESSES = 'Allowed addresses'
const PLAN = 'Plan'

/** Only those that a key has. */
export function textFacts(texts: ChosenFields): Html {
  const facts = TEXT_NAMES.map(name => {
    const text = texts[name]
    return text === null
      ? null
      : html`<div><dt>${KEY_TEXTS[name].label}</dt><dd>${markInvisible(text)}</dd></div>`
  })
  return html`${facts}`
}

export function restrictionFacts({ allowedCidrs, plan }: ChosenFields): Html {
  const fact = (label: string, text: string) =>
    text === '' ? null : html`<div><dt>${label}</dt><dd>${text}</dd></div>`
  return html`${fact(ALLOWED_ADDRESSES, allowedCidrs.join(', '))}${fact(PLAN, plan ?? '')}`
}

/** As the audit log names the fields that an edit changed. */
export const FIELD_LABELS: Readonly<Record<string, string>> = {
  name: 'Name',
  ...eachText(text => KEY_TEXTS[text].label),
  allowedCidrs: ALLOWED_ADDRESSES,
  plan: PLAN,
} satisfies Record<ChosenField, string>

/** As the audit log holds it. */
export function valueText(value: AuditValue): Piece {
  if (value === null || value === '') return 'empty'
  if (typeof value === 'string' || typeof value === 'number') return html`“${markInvisible(String(value))}”`
  return value.length === 0 ? 'every address' : value.join(', ')
}

/** The choice as received. */
export interface ExpiryChoice {
  /** A number of days, or `date`. */
  readonly expiry: string
  /** `2027-02-18`; empty if none was typed. */
  readonly date: string
}

export const DEFAULT_EXPIRY: ExpiryChoice = { expiry: String(DEFAULT_LIFETIME_DAYS), date: '' }

export function readExpiryChoice(fields: FormFields): ExpiryChoice {
  return { expiry: textField(fields, 'expiry'), date: textField(fields, 'date').trim() }
}

type ExpiryResult =
  | { readonly ok: true; readonly expiry: Pick<IssueRequest, 'expiresInDays' | 'expiresAt'> }
  | { readonly ok: false; readonly problems: Problems }

export function decideExpiry({ expiry, date }: ExpiryChoice, nowMs: number): ExpiryResult {
  if (expiry === 'date') return decideDate(date, nowMs)
  const days = EXPIRY_DAYS.find(choice => String(choice) === expiry)
  if (days === undefined) return problem('expiry', 'Choose when the key expires')
  // Without the script a form can hold both; guessing which was meant would often be wrong.
  if (date !== '') return problem('date', `Clear this date to keep ${days} days, or choose “On a date” above`)
  return { ok: true, expiry: { expiresInDays: days } }
}

/** The first and the last day that may be chosen, in the format of a date field. */
function dateBounds(nowMs: number): { readonly min: string; readonly max: string } {
  return { min: isoDay(nowMs + DAY_MS), max: isoDay(nowMs + MAX_DAYS * DAY_MS) }
}

/** The key expires at the end of that day, in UTC. */
function decideDate(date: string, nowMs: number): ExpiryResult {
  const { min, max } = dateBounds(nowMs)
  const chosen = { expiresAt: `${date}T23:59:59Z` }
  if (date === '') return problem('date', 'Enter the last day on which the key should work')
  if (/^\d{4}-\d\d-\d\d$/.test(date) && date >= min && date <= max && planExpiry(chosen, nowMs).ok) {
    return { ok: true, expiry: chosen }
  }
  return problem('date', `Enter a day from ${dayText(min)} to ${dayText(max)}, such as ${max}`)
}

export function isoDay(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 10)
}

/** @param day such as `2027-02-18` */
export function dayText(day: string): string {
  return dateText(Date.parse(`${day}T00:00:00Z`))
}

function problem(field: string, text: string): ExpiryResult {
  return { ok: false, problems: new Map([[field, text]]) }
}

/** The expiry fields shared by issuing and rotating. */
export function expiryField(label: string, choice: ExpiryChoice, problems: Problems, nowMs: number): Html {
  const days = EXPIRY_DAYS.map(count =>
    option({
      type: 'radio',
      name: 'expiry',
      value: String(count),
      checked: choice.expiry === String(count),
      label: `In ${count} days`,
      hint: dateText(nowMs + count * DAY_MS),
    }),
  )
  const onDate = option({
    type: 'radio',
    name: 'expiry',
    value: 'date',
    checked: choice.expiry === 'date',
    label: 'On a date',
  })
  const { min, max } = dateBounds(nowMs)
  const hint = 'The key expires at the end of this day, UTC'
  const date = textInput(
    { name: 'date', label: 'Last day', hint, problems },
    choice.date,
    html`type="date" min="${min}" max="${max}" data-chooses="expiry-date"`,
  )
  return group(
    {
      name: 'expiry',
      label,
      hint: 'You can rotate a key at any time before it expires',
      problems,
    },
    html`<div class="options row">${days}</div>${onDate}<div class="inset">${date}</div>`,
  )
}

/** The form's names for fields of the registry, where they differ. */
const FORM_NAMES: Readonly<Record<string, string>> = {
  expiresAt: 'date',
  expiresInDays: 'expiry',
  overlapSeconds: 'overlap',
}

/** A field that the registry rejects, although the form found no problem, for example because settings changed meanwhile. */
export function describeRejectedField({
  field,
  expected,
}: {
  readonly field: string
  readonly expected: string
}): Problems {
  return new Map([[FORM_NAMES[field] ?? field, `This must be ${expected}`]])
}
