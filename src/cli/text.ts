import { relativeTime } from '../domain/form/instant.ts'

/** Control characters, and those that change the direction of text: a terminal would act on them. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu

/** Text from the console, safe to show at a terminal. */
export function plainText(text: string): string {
  return text.replace(UNPRINTABLE, '\u{fffd}')
}

/** `2027-02-18 09:00`, in UTC. */
export function minuteText(instant: string): string {
  return instant.slice(0, 16).replace('T', ' ')
}

/** `2027-02-18 09:00:31`, in UTC: where a minute is too long. */
export function secondText(instant: string): string {
  return instant.slice(0, 19).replace('T', ' ')
}

/** `1 key`, `2 keys` */
export function keyCount(keys: number): string {
  return keys === 1 ? '1 key' : `${keys} keys`
}

/** Of a key, a token or a workspace. */
export function lastUseText({ lastUsedAt }: { readonly lastUsedAt: string | null }, nowMs: number): string {
  return lastUsedAt === null ? 'Never used' : relativeTime(Date.parse(lastUsedAt), nowMs)
}
