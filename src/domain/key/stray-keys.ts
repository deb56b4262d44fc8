import { endsAsKey, holdsKeyForm } from './secret.ts'

/** A shorter text is part of many harmless ones, and no secret. */
const MIN_CREDENTIALS_LENGTH = 8
const NONE: readonly string[] = []

/** Values allowed in `Authorization` only: a copy elsewhere would get into logs, or to the upstream. */
export interface StrayKeys {
  /** Of keys of our own form; null where keys have none. */
  readonly prefix: string | null
  /** What this request presents, where it is not of that form. */
  readonly credentials: readonly string[]
}

/** @param rawHeaders names and values in turn, as Node gives them */
export function strayKeysOf(rawHeaders: readonly string[], prefix: StrayKeys['prefix']): StrayKeys {
  let credentials = NONE
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (!isAuthorization(rawHeaders[at])) continue
    const field = rawHeaders[at + 1] ?? ''
    // Elsewhere a key of our form is found by its form.
    if (prefix !== null && endsAsKey(field, prefix)) continue
    const presented = credentialsOf(field)
    if (presented.length >= MIN_CREDENTIALS_LENGTH) credentials = [...credentials, presented]
  }
  return { prefix, credentials }
}

/** Whether the text contains a key, or what this request presents as one. */
export function holdsStrayKey(text: string, { prefix, credentials }: StrayKeys): boolean {
  if (prefix !== null && holdsKeyForm(text, prefix)) return true
  for (const presented of credentials) if (text.includes(presented)) return true
  return false
}

export function isAuthorization(name: string | undefined): boolean {
  return name?.length === 13 && (name === 'Authorization' || name.toLowerCase() === 'authorization')
}

/** The text after any scheme and its spaces, or the whole text if it has no scheme. */
function credentialsOf(field: string): string {
  const space = field.indexOf(' ')
  return space < 0 ? field : field.slice(space).trim()
}
