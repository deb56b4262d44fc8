import { returnPath as checkReturnPath } from '../platform/html/local-path.ts'

/** How long a person may take at the provider. */
export const SIGN_IN_ATTEMPT_SECONDS = 600
/** Tolerated clock difference between the console that starts an attempt and the one that completes it. */
const CLOCK_TOLERANCE_MS = 60_000
const RANDOM = /^[A-Za-z0-9_-]{20,128}$/

/**
 * Binds the provider's response to the browser that started signing in. It lives in a cookie only, so that attempts cost the
 * console no memory. The browser's owner may read or change it: the provider's response then no longer matches.
 */
export interface SignInAttempt {
  readonly state: string
  readonly nonce: string
  /** PKCE (RFC 7636). */
  readonly verifier: string
  /** Local path to return to. */
  readonly returnPath: string
  readonly startedAtMs: number
}

export function encodeSignInAttempt(attempt: SignInAttempt): string {
  return Buffer.from(JSON.stringify(attempt)).toString('base64url')
}

/** @returns null if it is malformed or expired */
export function decodeSignInAttempt(cookie: string | undefined, nowMs: number): SignInAttempt | null {
  const { state, nonce, verifier, returnPath, startedAtMs } = parse(cookie ?? '')
  if (![state, nonce, verifier].every(isRandom) || typeof startedAtMs !== 'number') return null
  if (nowMs < startedAtMs - CLOCK_TOLERANCE_MS || nowMs >= startedAtMs + SIGN_IN_ATTEMPT_SECONDS * 1000)
    return null
  return {
    state: String(state),
    nonce: String(nonce),
    verifier: String(verifier),
    returnPath: checkReturnPath(returnPath),
    startedAtMs,
  }
}

function isRandom(text: unknown): boolean {
  return typeof text === 'string' && RANDOM.test(text)
}

function parse(cookie: string): { readonly [Name in keyof SignInAttempt]?: unknown } {
  try {
    return JSON.parse(Buffer.from(cookie, 'base64url').toString('utf8')) ?? {}
  } catch {
    return {}
  }
}
