import type { EditRequest } from '../../../domain/key/edit-key.ts'
import type { KeyRecord } from '../../../domain/key/key-record.ts'
import { type AuditEntry, type AuditValue, changesOf } from '../../platform/audit/entries.ts'
import { type FormFields, type Problems, readLines, textField } from '../../platform/html/form-fields.ts'
import { dateText } from '../../platform/html/times.ts'
import { problemOfName, splitCidrs } from './issue-form.ts'

const DAY_MS = 86_400_000
/** A chosen day ends at 23:59:59 UTC. */
const DAY_END_MS = DAY_MS - 1000
const VERSION = /^[1-9]\d{0,9}$/

/** The form as received. */
export interface EditForm {
  readonly name: string
  readonly description: string
  /** An earlier last day, `2027-02-18`; empty to leave the expiry as it is. */
  readonly date: string
  /** Addresses and networks, one a line. */
  readonly allowedCidrs: string
  /** Of the key that the person has seen; null if it is missing. */
  readonly version: number | null
}

export function startEditForm({ name, description, allowedCidrs, version }: KeyRecord): EditForm {
  return { name, description: description ?? '', date: '', allowedCidrs: allowedCidrs.join('\n'), version }
}

export function readEditForm(fields: FormFields): EditForm {
  const version = textField(fields, 'version')
  return {
    name: textField(fields, 'name').trim(),
    description: textField(fields, 'description').trim(),
    date: textField(fields, 'date').trim(),
    allowedCidrs: readLines(fields, 'allowedCidrs'),
    version: VERSION.test(version) ? Number(version) : null,
  }
}

const TEXT_FIELDS = ['name', 'description', 'allowedCidrs'] as const

/**
 * A form of an earlier version, with the present value of each field that the person left as it was.
 * @param meanwhile changes since that version, newest first
 */
export function rebaseEditForm(
  form: EditForm,
  record: KeyRecord,
  meanwhile: readonly AuditEntry[],
): EditForm {
  const present = startEditForm(record)
  const rebased = { ...form }
  for (const field of TEXT_FIELDS) {
    const changes = meanwhile.map(entry => changesOf(entry)[field]).filter(change => change !== undefined)
    const first = changes.at(-1)
    if (first !== undefined && textOf(first.old) === form[field]) rebased[field] = present[field]
  }
  return rebased
}

function textOf(value: AuditValue): string {
  if (value === null) return ''
  return typeof value === 'object' ? value.join('\n') : String(value)
}

export type EditFormResult =
  | { readonly ok: true; readonly request: EditRequest }
  | { readonly ok: false; readonly problems: Problems }

/** The registry checks the description and the networks. */
export function checkEditForm(form: EditForm, key: KeyRecord, nowMs: number): EditFormResult {
  const { name, description, date } = form
  const nameProblem = problemOfName(name)
  const dateProblem = date === '' ? null : problemOfDate(date, earlierDays(key, nowMs))
  const problems = new Map<string, string>()
  if (nameProblem !== null) problems.set('name', nameProblem)
  if (dateProblem !== null) problems.set('date', dateProblem)
  if (problems.size > 0) return { ok: false, problems }
  const allowedCidrs = splitCidrs(form.allowedCidrs)
  const expiry = date === '' ? {} : { expiresAt: `${date}T23:59:59Z` }
  return { ok: true, request: { name, description, allowedCidrs, ...expiry } }
}

/** The days that can become a key's last one; null if there is none. */
export function earlierDays(
  { expiresAtMs }: Pick<KeyRecord, 'expiresAtMs'>,
  nowMs: number,
): { readonly min: string; readonly max: string } | null {
  const min = dayOf(nowMs)
  const max = dayOf(expiresAtMs - DAY_END_MS)
  return min <= max ? { min, max } : null
}

function problemOfDate(date: string, days: ReturnType<typeof earlierDays>): string | null {
  if (days === null) return 'Clear this date: the key expires within a day'
  const { min, max } = days
  const isDay = /^\d{4}-\d\d-\d\d$/.test(date) && !Number.isNaN(Date.parse(date))
  if (isDay && date >= min && date <= max) return null
  return `Enter a day from ${dayText(min)} to ${dayText(max)}, such as ${max}, or none`
}

function dayOf(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 10)
}

function dayText(day: string): string {
  return dateText(Date.parse(`${day}T00:00:00Z`))
}
