import { DEFAULT_LIFETIME_DAYS, type IssueRequest, planExpiry } from '../../../domain/key/issue-key.ts'
import {
  type FormFields,
  group,
  option,
  type Problems,
  textField,
  textInput,
} from '../../platform/html/form-parts.ts'
import { dateText, type Html, html } from '../../platform/html/html.ts'

const EXPIRY_DAYS = [7, 30, 90, 180, 365] as const
const DAY_MS = 86_400_000
const MAX_DAYS = 365

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
  return { min: dayOf(nowMs + DAY_MS), max: dayOf(nowMs + MAX_DAYS * DAY_MS) }
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

export function dayOf(atMs: number): string {
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
