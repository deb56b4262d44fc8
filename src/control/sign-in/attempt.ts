import { localPath } from './local-path.ts'

/** How long somebody may take at the provider. */
export const ATTEMPT_SECONDS = 600
/** By how much the clocks of two consoles may differ, one of which sends people off and the other takes them back. */
const CLOCK_TOLERANCE_MS = 60_000
const RANDOM = /^[A-Za-z0-9_-]{20,128}$/

/**
 * What a browser must bring back from the provider: that it is the one that left. It is kept in a cookie of that browser
 * and nowhere here, so that nobody can fill the console with attempts. It need not be secret from whoever it belongs to,
 * nor protected from them: with other values than the provider was given, the provider's answer fits no more.
 */
export interface Attempt {
  readonly state: string
  readonly nonce: string
  /** PKCE (RFC 7636). */
  readonly verifier: string
  /** Where to go afterwards, a path of our own. */
  readonly goal: string
  readonly startedAtMs: number
}

export function encodeAttempt(attempt: Attempt): string {
  return Buffer.from(JSON.stringify(attempt)).toString('base64url')
}

/** @returns null where it is none, or one that has taken too long */
export function decodeAttempt(cookie: string | undefined, nowMs: number): Attempt | null {
  const { state, nonce, verifier, goal, startedAtMs } = parse(cookie ?? '')
  if (![state, nonce, verifier].every(isRandom) || typeof startedAtMs !== 'number') return null
  if (nowMs < startedAtMs - CLOCK_TOLERANCE_MS || nowMs >= startedAtMs + ATTEMPT_SECONDS * 1000) return null
  return {
    state: String(state),
    nonce: String(nonce),
    verifier: String(verifier),
    goal: localPath(goal) ?? '/',
    startedAtMs,
  }
}

function isRandom(text: unknown): boolean {
  return typeof text === 'string' && RANDOM.test(text)
}

function parse(cookie: string): { readonly [Name in keyof Attempt]?: unknown } {
  try {
    return JSON.parse(Buffer.from(cookie, 'base64url').toString('utf8')) ?? {}
  } catch {
    return {}
  }
}
