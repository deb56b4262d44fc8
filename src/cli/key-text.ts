import { styleText } from 'node:util'
import type { Host } from '../run/host.ts'
import type { ShownKey } from './admin-answers.ts'
import { plainText } from './plain-text.ts'
import { minuteOf, relativeTime } from './times.ts'

type Colour = 'green' | 'yellow' | 'red' | 'gray' | 'bold'
/** Text in a colour, or as it was. */
export type Paint = (colour: Colour, text: string) => string

const STATE_COLOURS: Readonly<Record<string, Colour>> = {
  active: 'green',
  retiring: 'yellow',
  expired: 'gray',
  revoked: 'red',
}

/** Colour where a terminal is and nobody declined it (https://no-color.org). */
export function paintFor(stream: NodeJS.WriteStream, { environment }: Host): Paint {
  const declined = (environment['NO_COLOR'] ?? '') !== '' || environment['TERM'] === 'dumb'
  if (stream.isTTY !== true || declined) return (_, text) => text
  return (colour, text) => styleText(colour, text, { validateStream: false })
}

export function stateText({ state }: ShownKey, paint: Paint): string {
  return paint(STATE_COLOURS[state] ?? 'bold', plainText(state))
}

/** A key in half a line, for sentences. */
export function nameOf({ id, hint, name }: ShownKey): string {
  return `${plainText(id)} (${plainText(hint)}, ${plainText(name)})`
}

export function expiryText({ expiresAt }: ShownKey, nowMs: number): string {
  return `${minuteOf(expiresAt)} UTC, ${relativeTime(expiresAt, nowMs)}`
}

export function lastUseText({ lastUsedAt }: ShownKey, nowMs: number): string {
  return lastUsedAt === null ? 'never' : relativeTime(lastUsedAt, nowMs)
}

export function scopesText({ scopes }: ShownKey): string {
  return scopes.map(plainText).join(' ')
}
