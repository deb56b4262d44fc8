import type { ShownKey } from '../admin/responses.ts'
import { minuteOf, plainText } from './text.ts'

/** What changed between two readings of a key, such as `name is now "b", was "a"`. */
export function differencesOf(before: ShownKey, after: ShownKey): string[] {
  const [was, is] = [fieldsOf(before), fieldsOf(after)]
  return Object.entries(is).flatMap(([field, now]) =>
    now === was[field] ? [] : [`${field} is now ${now}, was ${was[field]}`],
  )
}

function fieldsOf(key: ShownKey): Record<string, string> {
  const { allowedCidrs = [], description } = key
  return {
    name: quoted(key.name),
    description: description == null ? 'none' : quoted(description),
    'allowed networks': allowedCidrs.length === 0 ? 'any' : allowedCidrs.map(plainText).join(' '),
    expiry: `${minuteOf(key.expiresAt)} UTC`,
    state: plainText(key.state),
  }
}

function quoted(text: string): string {
  return `"${plainText(text)}"`
}
