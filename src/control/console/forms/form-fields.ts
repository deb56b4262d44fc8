/** A form as it came: text under each name, or a list where a name was sent more than once. */
export type FormFields = Readonly<Record<string, string | readonly string[] | undefined>>

/** What is wrong, by the name of the field that it is said beside; in the order of the page. */
export type Problems = ReadonlyMap<string, string>

export const NO_PROBLEMS: Problems = new Map()

/** @returns empty where it was not sent; the first where it was sent more than once */
export function textField(fields: FormFields, name: string): string {
  return listField(fields, name)[0] ?? ''
}

export function listField(fields: FormFields, name: string): readonly string[] {
  const value = fields[name]
  if (value === undefined) return []
  return typeof value === 'string' ? [value] : value
}
