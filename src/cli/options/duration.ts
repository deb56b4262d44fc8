import { InvalidArgumentError } from 'commander'
import { EXIT } from '../../run/host.ts'
import { CliError } from '../cli.ts'

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
    if (seconds > longest) throw new CliError(`${given} longer than ${durationText(longest)}`, EXIT.usage)
    if (seconds < shortest) throw new CliError(`${given} shorter than ${durationText(shortest)}`, EXIT.usage)
    return seconds
  }
}
