import { plainSearch } from '../../../domain/pasted-text.ts'

/** A form as received: text for each name, or a list for a repeated name. */
export type FormFields = Readonly<Record<string, string | readonly string[] | undefined>>

/** Problems by field name, in the order of the page. */
export type Problems = ReadonlyMap<string, string>

export const NO_PROBLEMS: Problems = new Map()

/** @returns empty if the field is missing; the first of a repeated field */
export function textField(fields: FormFields, name: string): string {
  return listField(fields, name)[0] ?? ''
}

/** Browsers send CR LF. */
export function readLines(fields: FormFields, name: string): string {
  return textField(fields, name).replaceAll('\r\n', '\n')
}

export function listField(fields: FormFields, name: string): readonly string[] {
  const value = fields[name]
  if (value === undefined) return []
  return typeof value === 'string' ? [value] : value
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
