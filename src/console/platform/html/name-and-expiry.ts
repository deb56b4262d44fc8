import { hasVisible } from '../../../domain/form/text.ts'
import { isKeyName, MAX_NAME_LENGTH } from '../../../domain/key/key-fields.ts'
import { DEFAULT_LIFETIME_DAYS, type IssueRequest, planExpiry } from '../../../domain/key/key-life.ts'
import {
  type Field,
  type FormFields,
  group,
  option,
  type Problems,
  textField,
  textInput,
} from './form-parts.ts'
import { dateText, type Html, html } from './html.ts'

const EXPIRY_DAYS = [7, 30, 90, 180, 365] as const
const DAY_MS = 86_400_000
const MAX_DAYS = 365

/** @param name of a key or a token */
export function findNameProblem(name: string): string | null {
  if (name === '') return 'Enter a name, such as “build server”'
  const length = [...name].length
  if (length > MAX_NAME_LENGTH) return `Shorten the name to ${MAX_NAME_LENGTH} characters; it has ${length}`
  if (!hasVisible(name)) return 'Enter a name with characters that are visible, such as “build server”'
  return isKeyName(name) ? null : 'Remove line breaks, tabs and other control characters from the name'
}

/** The choice of an expiry as received. */
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
  if (days === undefined) return problem('expiry', 'Choose when it expires')
  // Without the script a form can hold both; guessing which was meant would often be wrong.
  if (date !== '') return problem('date', `Clear this date to keep ${days} days, or choose “On a date” above`)
  return { ok: true, expiry: { expiresInDays: days } }
}

/** The first and the last day that may be chosen, in the format of a date field. */
function dateBounds(nowMs: number): { readonly min: string; readonly max: string } {
  return { min: isoDay(nowMs + DAY_MS), max: isoDay(nowMs + MAX_DAYS * DAY_MS) }
}

/** The expiry is at the end of that day, in UTC. */
function decideDate(date: string, nowMs: number): ExpiryResult {
  const { min, max } = dateBounds(nowMs)
  const chosen = { expiresAt: `${date}T23:59:59Z` }
  if (date === '') return problem('date', 'Enter the last day on which it should work')
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

/** The expiry fields shared by issuing and rotating keys and by making tokens. */
export function expiryField(
  { label, hint, problems }: Omit<Field, 'name'>,
  choice: ExpiryChoice,
  nowMs: number,
): Html {
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
  const date = textInput(
    { name: 'date', label: 'Last day', hint: 'It expires at the end of this day, UTC', problems },
    choice.date,
    html`type="date" min="${min}" max="${max}" data-chooses="expiry-date"`,
  )
  return group(
    { name: 'expiry', label, hint, problems },
    html`<div class="options row">${days}</div>${onDate}<div class="inset">${date}</div>`,
  )
}
