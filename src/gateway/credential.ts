import { digestOf, hasKeyForm, hasKeyMac, type KeyFormat } from '../domain/secret.ts'

export type Credential =
  | { readonly kind: 'missing' }
  /** Not of the form of a key, or without the MAC of one: no store is asked. */
  | { readonly kind: 'malformed' }
  /** All that goes on from here is the digest: the key itself ends in this function. */
  | { readonly kind: 'key'; readonly digest: string }

const SCHEME = 'bearer '

/**
 * Checks 4 and 5, as far as the request alone can tell.
 * @param authorization every `Authorization` field of the request (RFC 6750, section 2.1)
 */
export function readCredential(authorization: readonly string[], format: KeyFormat): Credential {
  const [field] = authorization
  if (field === undefined || authorization.length > 1) return { kind: 'missing' }
  const key = tokenOf(field)
  if (key === '') return { kind: 'missing' }
  if (!hasKeyForm(key, format) || !hasKeyMac(key, format)) return { kind: 'malformed' }
  return { kind: 'key', digest: digestOf(key) }
}

/** Scheme, spaces, token: nothing else parts the two (RFC 6750, section 2.1). @returns empty where it is not of this form */
function tokenOf(field: string): string {
  if (field.slice(0, SCHEME.length).toLowerCase() !== SCHEME) return ''
  let at = SCHEME.length
  while (field[at] === ' ') at++
  return field.slice(at)
}
