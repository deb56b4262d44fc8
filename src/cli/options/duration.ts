import { InvalidArgumentError } from 'commander'

const UNIT_SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 }

/** `90d` in seconds: a whole number and a unit. */
export function parseDuration(text: string): number {
  const [, digits = '', unit = ''] = /^(\d{1,9})([smhd])$/.exec(text) ?? []
  const seconds = UNIT_SECONDS[unit]
  if (seconds !== undefined) return Number(digits) * seconds
  if (text === '0') return 0
  throw new InvalidArgumentError('It must be a whole number with a unit (s, m, h or d), such as 90d or 12h.')
}
