import { styleText } from 'node:util'
import type { Host } from '../run/host.ts'
import type { ShownGateways, ShownKey } from './admin-answers.ts'
import { minuteOf, plainText, relativeTime } from './text.ts'

type Colour = 'green' | 'yellow' | 'red' | 'gray' | 'bold'
/** Returns the text in a colour, or unchanged. */
export type Paint = (colour: Colour, text: string) => string

const STATE_COLOURS: Readonly<Record<string, Colour>> = {
  active: 'green',
  retiring: 'yellow',
  expired: 'gray',
  revoked: 'red',
}

/** Colours only at a terminal, unless they are switched off (https://no-color.org). */
export function paintFor(stream: NodeJS.WriteStream, { environment }: Host): Paint {
  const declined = (environment['NO_COLOR'] ?? '') !== '' || environment['TERM'] === 'dumb'
  if (stream.isTTY !== true || declined) return (_, text) => text
  return (colour, text) => styleText(colour, text, { validateStream: false })
}

export function stateText({ state }: ShownKey, paint: Paint): string {
  return paint(STATE_COLOURS[state] ?? 'bold', plainText(state))
}

/** Identifies a key within a sentence. */
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

export const UNANNOUNCED =
  'The gateways could not be notified yet: the console keeps trying, and each rejects the key at its next lookup'
const NONE_KNOWN = 'No gateway has reported to the console within the last minute, so none can confirm it.'

/** Which gateways have confirmed a revocation. */
export function gatewaysText({ known, confirmed, verifying, silent }: ShownGateways): string {
  if (known === 0) return NONE_KNOWN
  const parts = [`${confirmed} of ${known} ${known === 1 ? 'gateway has' : 'gateways have'} confirmed it`]
  if (verifying > 0) {
    const checks = verifying === 1 ? 'is disconnected and checks' : 'are disconnected and check'
    parts.push(`${verifying} ${checks} each key with the console before accepting it`)
  }
  if (silent.length > 0) {
    const names = silent.map(({ name }) => plainText(name)).join(', ')
    parts.push(`no answer within a second from ${names}`)
  }
  return `${parts.join('; ')}.`
}
