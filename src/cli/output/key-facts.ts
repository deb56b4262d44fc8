import type { ShownKey } from '../admin/responses.ts'
import type { Fact } from './facts.ts'
import { expiryInFull, lastUseText, scopesText, stateColour } from './key-text.ts'
import type { Paint } from './paint.ts'
import { minuteOf, plainText } from './text.ts'

/** A key in full. */
export function keyFacts(key: ShownKey, nowMs: number, paint: Paint): Fact[] {
  const { allowedCidrs = [] } = key
  return [
    ['Id', plainText(key.id)],
    ['Hint', plainText(key.hint)],
    ['Workspace', plainText(key.workspaceId)],
    ['Name', plainText(key.name)],
    ['Description', orNull(key.description)],
    ['Scopes', scopesText(key)],
    ['State', paint(stateColour(key), plainText(key.state))],
    ['Allowed networks', allowedCidrs.length === 0 ? 'any' : allowedCidrs.map(plainText).join(' ')],
    [
      'Created',
      `${minuteOf(key.createdAt)} UTC${key.createdBy === undefined ? '' : ` by ${plainText(key.createdBy)}`}`,
    ],
    ['Expires', expiryInFull(key, nowMs)],
    ['Suspended', instantOrNull(key.suspendedAt)],
    ['Revoked', instantOrNull(key.revokedAt)],
    ['Last used', lastUseText(key, nowMs)],
    ['Replaces', orNull(key.rotatedFrom)],
    ['Replaced by', orNull(key.replacedBy)],
    ['Version', key.version === undefined ? null : String(key.version)],
  ]
}

function orNull(text: string | null | undefined): string | null {
  return text == null ? null : plainText(text)
}

function instantOrNull(instant: string | null | undefined): string | null {
  return instant == null ? null : `${minuteOf(instant)} UTC`
}
