import { endsAsKey, holdsKeyForm } from './secret.ts'

/** A shorter text occurs in many harmless texts, and is no secret. */
const MIN_CREDENTIALS_LENGTH = 8
const NONE: readonly string[] = []

/** Values allowed only in `Authorization`: a copy elsewhere would reach logs or the upstream. */
export interface StrayKeys {
  /** Prefix of signed keys; null if keys are opaque. */
  readonly prefix: string | null
  /** Credentials of this request that do not have the form of a signed key. */
  readonly credentials: readonly string[]
}

/** @param rawHeaders names and values alternating, as in Node's `rawHeaders` */
export function findStrayKeys(rawHeaders: readonly string[], prefix: StrayKeys['prefix']): StrayKeys {
  let credentials = NONE
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (!isAuthorization(rawHeaders[at])) continue
    const field = rawHeaders[at + 1] ?? ''
    // `holdsStrayKey` finds a copy of a signed key by its form.
    if (prefix !== null && endsAsKey(field, prefix)) continue
    const presented = stripScheme(field)
    if (presented.length >= MIN_CREDENTIALS_LENGTH) credentials = [...credentials, presented]
  }
  return { prefix, credentials }
}

/** Whether the text contains a key, or the credentials of this request. */
export function holdsStrayKey(text: string, { prefix, credentials }: StrayKeys): boolean {
  if (prefix !== null && holdsKeyForm(text, prefix)) return true
  for (const presented of credentials) if (text.includes(presented)) return true
  return false
}

export function isAuthorization(name: string | undefined): boolean {
  return name?.length === 13 && (name === 'Authorization' || name.toLowerCase() === 'authorization')
}

/** The text after any scheme and its spaces, or the whole text if it has no scheme. */
function stripScheme(field: string): string {
  const space = field.indexOf(' ')
  return space < 0 ? field : field.slice(space).trim()
}
