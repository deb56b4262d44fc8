import { withinDeadline } from '../domain/clock.ts'
import { describeError } from '../observability/control-logger.ts'

/** What one check found. */
export interface Finding {
  /** What was checked. */
  readonly check: string
  readonly isOk: boolean
  /** What is there, or what is wrong. */
  readonly found: string
  /** What to do; null if nothing, or if what was found says it. */
  readonly advice: string | null
}

/** How far another clock is behind this machine's. */
export interface ClockReading {
  /** Whose clock. */
  readonly of: string
  readonly behindMs: number
  /** How far the reading may be wrong, either way. */
  readonly toleranceMs: number
  /** A larger difference is a failure. */
  readonly limitMs: number
}

/** What a check that passed has found. */
export interface Passed {
  readonly found: string
  readonly clock?: ClockReading | undefined
}

/** A check of its own time: it never waits longer than `CHECK_DEADLINE_MS`. */
export interface Check {
  readonly name: string
  run(): Promise<Passed>
}

interface Examined {
  readonly finding: Finding
  readonly clock?: ClockReading | undefined
}

/** Longer than each time limit within a check, so that a check ends by its own, which says more. */
const CHECK_DEADLINE_MS = 10_000

/** What the text of a server may end with. Bounded, so that a long text of blanks takes no longer. */
const CLOSING_MARKS = /[.:\s]{1,8}$/

/** For one answer. */
export const ANSWER_MS = 5_000

/** A check that failed, with what to do. */
export class CheckFailure extends Error {
  readonly advice: string | null

  constructor(message: string, advice: string | null) {
    super(message)
    this.advice = advice
  }
}

/** What has no time limit of its own is the resolver. */
const LATE_ADVICE = 'check that the host name resolves, and that this machine is not overloaded'

/** Never rejects: an error is what the check found. */
export async function runCheck({ name, run }: Check): Promise<Examined> {
  try {
    const { found, clock } = await withinDeadline(run(), CHECK_DEADLINE_MS, () => {
      throw new CheckFailure(`no result within ${CHECK_DEADLINE_MS / 1000} s`, LATE_ADVICE)
    })
    return { finding: passed(name, found), clock }
  } catch (error) {
    const advice = error instanceof CheckFailure ? error.advice : null
    return { finding: { check: name, isOk: false, found: describeError(error), advice } }
  }
}

function passed(check: string, found: string): Finding {
  return { check, isOk: true, found, advice: null }
}

/** One line for each finding, in columns. */
export function formatFindings(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ check }) => check.length))
  return findings
    .map(({ check, isOk, found, advice }) => {
      const text = advice === null ? found : `${found.replace(CLOSING_MARKS, '')}: ${advice}`
      // A text of a server may have several lines.
      const line = text.trim().replaceAll(/\s+/g, ' ')
      return `${isOk ? 'ok    ' : 'FAILED'}  ${check.padEnd(width)}  ${line}\n`
    })
    .join('')
}

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

const LIST = new Intl.ListFormat('en-GB')

/** @returns null if no other clock was read */
export function compareClocks(readings: readonly ClockReading[]): Finding | null {
  if (readings.length === 0) return null
  const wrong = readings.filter(
    ({ behindMs, toleranceMs, limitMs }) => Math.abs(behindMs) - toleranceMs > limitMs,
  )
  if (wrong.length === 0) return passed('clock', `agrees with ${LIST.format(readings.map(({ of }) => of))}`)
  const found = `this clock is ${LIST.format(wrong.map(describe))}`
  const advice = 'synchronize the clocks by NTP: keys expire by them'
  return { check: 'clock', isOk: false, found, advice }
}

function describe({ of, behindMs }: ClockReading): string {
  const seconds = Math.abs(behindMs / 1000).toFixed(1)
  return `${seconds} s ${behindMs > 0 ? 'ahead of' : 'behind'} ${of}`
}
