import { InvalidArgumentError, Option } from 'commander'
import { parseInstant } from '../../domain/form/instant.ts'
import { plainPasted } from '../../domain/form/text.ts'
import { isKeyId } from '../../domain/id-form.ts'
import { MAX_LIFETIME_DAYS } from '../../domain/key/key-life.ts'
import { isWorkspaceId, WORKSPACE_ID_EXPECTED } from '../../domain/key/key-record.ts'
import { usageError } from '../cli.ts'

export const DAY_SECONDS = 86_400
const SHORTEST_SECONDS = 60
const UNIT_SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 }

/** `90d` in seconds: a whole number and a unit. */
export function parseDuration(text: string): number {
  const [, digits = '', unit = ''] = /^(\d{1,9})([smhd])$/.exec(text) ?? []
  const seconds = UNIT_SECONDS[unit]
  if (seconds !== undefined) return Number(digits) * seconds
  if (text === '0') return 0
  throw new InvalidArgumentError('It must be a whole number with a unit (s, m, h or d), such as 90d or 12h.')
}

/** `90 days`, `12 hours`: in the largest unit that says it exactly. */
export function durationText(seconds: number): string {
  const names = { d: 'day', h: 'hour', m: 'minute', s: 'second' }
  const units = Object.entries(names).map(([unit, name]) => ({ name, size: UNIT_SECONDS[unit] ?? 1 }))
  const { name, size } = units.find(unit => seconds % unit.size === 0) ?? { name: 'second', size: 1 }
  const count = seconds / size
  return `${count} ${name}${count === 1 ? '' : 's'}`
}

/** For an option that takes a duration within bounds, in seconds. */
export function durationWithin(flag: string, shortest: number, longest: number): (text: string) => number {
  return text => {
    const seconds = parseDuration(text)
    const given = `${flag}: ${durationText(seconds)} is`
    if (seconds > longest) throw usageError(`${given} longer than ${durationText(longest)}`)
    if (seconds < shortest) throw usageError(`${given} shorter than ${durationText(shortest)}`)
    return seconds
  }
}

/** Parses the argument of an option: a port, or 0 for a free one. */
export function portNumber(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text)
  throw new InvalidArgumentError('It must be a port, or 0 for a free one.')
}

/** Parses the argument of an option: a whole number from 1 to `most`, without sign or leading zero. */
export function wholeNumberTo(most: number): (text: string) => number {
  return text => {
    const count = Number(text)
    if (/^[1-9]\d*$/.test(text) && count <= most) return count
    throw new InvalidArgumentError(`It must be a whole number from 1 to ${most}.`)
  }
}

/** An instant, as the admin API takes it. */
export function parseInstantArgument(text: string): string {
  if (parseInstant(text) !== null) return text
  throw new InvalidArgumentError('It must be an instant such as 2027-02-18T09:00:00Z.')
}

/** Query parameters of the options that were given. */
export function givenParameters(
  options: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const given = Object.entries(options).filter((entry): entry is [string, string] => entry[1] !== undefined)
  return Object.fromEntries(given)
}

/** @param name of the option or argument, for the error message */
export function checkWorkspace(text: string, name = '--workspace'): string {
  const id = plainPasted(text)
  if (isWorkspaceId(id)) return id
  throw usageError(`${name} must be ${WORKSPACE_ID_EXPECTED}`)
}

/** A secret pasted here by mistake must not reach an error message, a URL or the console's log. */
export function checkKeyId(text: string): string {
  const id = plainPasted(text)
  if (isKeyId(id)) return id
  const message =
    'This is not the id of a key: key ids are key_ followed by 26 digits and capital letters. `postern keys list` shows them, and `postern keys find` reads a key and shows its id'
  throw usageError(message)
}

export function expiresInOption(
  description = 'lifetime of the key, such as 90d or 12h (default: 90d)',
): Option {
  const flag = '--expires-in'
  const option = new Option(`${flag} <duration>`, description)
  return option.argParser(durationWithin(flag, SHORTEST_SECONDS, MAX_LIFETIME_DAYS * DAY_SECONDS))
}

const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/

/** What a command that failed printed, so that the same command finds what it made. */
export function idempotencyKeyOption(): Option {
  const option = new Option(
    '--idempotency-key <text>',
    'of an earlier attempt, which is found if it succeeded',
  )
  return option.argParser((text: string) => {
    if (IDEMPOTENCY_KEY.test(text)) return text
    throw new InvalidArgumentError('An idempotency key has 1 to 255 visible ASCII characters.')
  })
}
