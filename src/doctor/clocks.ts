import type { ClockReading, Finding } from './finding.ts'

/** As the alert PosternClockSkew has it: a key expires by the gateway's clock, and is issued by the console's. */
export const GATEWAY_LIMIT_MS = 1_000
/** What the sign-in of the console tolerates of a provider, and more than an intermediary adds to a response. */
const LIMIT_MS = 30_000
/** `Date` is in seconds (RFC 9110, section 5.6.7). */
export const HTTP_DATE_RESOLUTION_MS = 1_000

/** A clock that was read between two moments of this machine's. @param resolutionMs of what it said */
export function readClock(
  of: string,
  theirsMs: number,
  { sentAtMs, receivedAtMs }: { readonly sentAtMs: number; readonly receivedAtMs: number },
  { limitMs = LIMIT_MS, resolutionMs = 0 } = {},
): ClockReading | undefined {
  if (!Number.isFinite(theirsMs)) return undefined
  const behindMs = (sentAtMs + receivedAtMs) / 2 - theirsMs
  return { of, behindMs, toleranceMs: (receivedAtMs - sentAtMs) / 2 + resolutionMs, limitMs }
}

/** @returns null if no other clock was read */
export function compareClocks(readings: readonly ClockReading[]): Finding | null {
  if (readings.length === 0) return null
  const wrong = readings.filter(isWrong)
  if (wrong.length === 0) {
    return {
      check: 'clock',
      isOk: true,
      found: `agrees with ${list(readings.map(({ of }) => of))}`,
      advice: null,
    }
  }
  const found = `this clock is ${list(wrong.map(describe))}`
  const advice = 'synchronize the clocks by NTP: keys expire by them'
  return { check: 'clock', isOk: false, found, advice }
}

function isWrong({ behindMs, toleranceMs, limitMs }: ClockReading): boolean {
  return Math.abs(behindMs) - toleranceMs > limitMs
}

function describe({ of, behindMs }: ClockReading): string {
  const seconds = Math.abs(behindMs / 1000).toFixed(1)
  return `${seconds} s ${behindMs > 0 ? 'ahead of' : 'behind'} ${of}`
}

function list(items: readonly string[]): string {
  return items.length < 2 ? (items[0] ?? '') : `${items.slice(0, -1).join(', ')} and ${items.at(-1)}`
}
