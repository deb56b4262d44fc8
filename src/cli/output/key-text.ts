import { relativeTime } from '../../domain/relative-time.ts'
import type { ShownKey } from '../admin/responses.ts'
import type { Colour } from './paint.ts'
import { minuteOf, plainText } from './text.ts'

const STATE_COLOURS: Readonly<Record<string, Colour>> = {
  active: 'green',
  retiring: 'yellow',
  suspended: 'yellow',
  expired: 'gray',
  revoked: 'red',
}

export function stateColour({ state }: ShownKey): Colour {
  return STATE_COLOURS[state] ?? 'bold'
}

/** `1 key`, `2 keys` */
export function keyCount(keys: number): string {
  return keys === 1 ? '1 key' : `${keys} keys`
}

/** Identifies a key within a sentence. */
export function keyNameOf({ id, hint, name }: ShownKey): string {
  return `${plainText(id)} (${plainText(hint)}, ${plainText(name)})`
}

/** `in 90 days`; a revoked key does not expire. */
export function expiryText({ expiresAt, state }: ShownKey, nowMs: number): string {
  return state === 'revoked' ? '-' : relativeTime(Date.parse(expiresAt), nowMs)
}

/** `2027-02-18 09:00 UTC, in 90 days` */
export function expiryInFull(key: ShownKey, nowMs: number): string {
  return `${minuteOf(key.expiresAt)} UTC, ${expiryText(key, nowMs)}`
}

export function lastUseText({ lastUsedAt }: Pick<ShownKey, 'lastUsedAt'>, nowMs: number): string {
  return lastUsedAt === null ? 'Never used' : relativeTime(Date.parse(lastUsedAt), nowMs)
}

export function scopesText({ scopes }: ShownKey): string {
  return scopes.map(plainText).join(' ')
}

export function issuedText(key: ShownKey, nowMs: number): string {
  return `Issued ${keyNameOf(key)} for workspace ${plainText(key.workspaceId)}: ${scopesText(key)}; expires ${expiryInFull(key, nowMs)}.`
}
