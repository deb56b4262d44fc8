import { DEFAULT_LIFETIME_DAYS, type IssueRequest, planExpiry } from '../../../domain/issue-key.ts'
import { dateText } from '../layout/times.ts'
import { type FormFields, type Problems, textField } from './form-fields.ts'

export const EXPIRY_DAYS = [7, 30, 90, 180, 365] as const
const DAY_MS = 86_400_000
const MAX_DAYS = 365

/** What was chosen and typed, as it came. */
export interface ExpiryChoice {
  /** A number of days, or `date`. */
  readonly expiry: string
  /** `2027-02-18`; empty where none was typed. */
  readonly date: string
}

export const DEFAULT_EXPIRY: ExpiryChoice = { expiry: String(DEFAULT_LIFETIME_DAYS), date: '' }

export function readExpiryChoice(fields: FormFields): ExpiryChoice {
  return { expiry: textField(fields, 'expiry'), date: textField(fields, 'date').trim() }
}

export type ExpiryResult =
  | { readonly ok: true; readonly context: Pick<IssueRequest, 'expiresInDays' | 'expiresAt'> }
  | { readonly ok: false; readonly problems: Problems }

export function decideExpiry({ expiry, date }: ExpiryChoice, nowMs: number): ExpiryResult {
  if (expiry === 'date') return decideDate(date, nowMs)
  const days = EXPIRY_DAYS.find(choice => String(choice) === expiry)
  if (days === undefined) return problem('expiry', 'Choose when the key expires')
  // Without a script nothing keeps both from being said, and to guess which was meant would be wrong half of the time.
  if (date !== '') return problem('date', `Clear this date to keep ${days} days, or choose “On a date” above`)
  return { ok: true, context: { expiresInDays: days } }
}

/** The last and the first day that may be chosen, as a date field has them. */
export function dateBounds(nowMs: number): { readonly min: string; readonly max: string } {
  return { min: dayOf(nowMs + DAY_MS), max: dayOf(nowMs + MAX_DAYS * DAY_MS) }
}

/** A key of a date works on that day until it ends, in UTC. */
function decideDate(date: string, nowMs: number): ExpiryResult {
  const { min, max } = dateBounds(nowMs)
  const context = { expiresAt: `${date}T23:59:59Z` }
  if (date === '') return problem('date', 'Enter the last day on which the key should work')
  if (/^\d{4}-\d\d-\d\d$/.test(date) && date >= min && date <= max && planExpiry(context, nowMs).ok) {
    return { ok: true, context }
  }
  return problem('date', `Enter a day from ${dayText(min)} to ${dayText(max)}, such as ${max}`)
}

function dayOf(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 10)
}

function dayText(day: string): string {
  return dateText(Date.parse(`${day}T00:00:00Z`))
}

function problem(field: string, text: string): ExpiryResult {
  return { ok: false, problems: new Map([[field, text]]) }
}
