import { holdsKeyForm } from '../../domain/key/secret.ts'
import type { LeakFinding } from '../platform/audit/entries.ts'

export const MAX_PLACE_LENGTH = 500
const NOT_SHOWN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu
const SOURCE = /^[a-z_]{1,40}$/

/** What a report says of a token, before it is checked. */
export interface ReportedPlace {
  readonly url?: unknown
  readonly source?: unknown
}

/** What the audit log may hold of it: bounded, without invisible characters, and never the token. */
export function findingOf(
  { url, source }: ReportedPlace,
  { token, keyPrefix }: { readonly token: string; readonly keyPrefix: string },
): LeakFinding {
  return {
    foundAt: typeof url === 'string' ? placeOf(url, token, keyPrefix) : null,
    source: typeof source === 'string' && SOURCE.test(source) ? source : null,
  }
}

/** @returns null for an empty text, and for one that contains a key */
function placeOf(url: string, token: string, keyPrefix: string): string | null {
  const visible = url.replace(NOT_SHOWN, '')
  const holdsKey = [visible, decoded(visible)].some(
    text => text.includes(token) || holdsKeyForm(text, keyPrefix),
  )
  if (visible === '' || holdsKey) return null
  return [...visible].slice(0, MAX_PLACE_LENGTH).join('')
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
