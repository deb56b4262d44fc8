import { DEFAULT_LIFETIME_DAYS, type IssueRequest, planExpiry } from '../../../domain/key/issue-key.ts'
import { type FormFields, type Problems, textField } from '../../platform/html/form-fields.ts'
import { dateText } from '../../platform/html/times.ts'

export const EXPIRY_DAYS = [7, 30, 90, 180, 365] as const
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

export type ExpiryResult =
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
export function dateBounds(nowMs: number): { readonly min: string; readonly max: string } {
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

function dayOf(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 10)
}

function dayText(day: string): string {
  return dateText(Date.parse(`${day}T00:00:00Z`))
}

function problem(field: string, text: string): ExpiryResult {
  return { ok: false, problems: new Map([[field, text]]) }
}
