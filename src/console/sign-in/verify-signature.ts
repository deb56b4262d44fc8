import { compactVerify, createRemoteJWKSet, customFetch, errors } from 'jose'
import type { Clock } from '../../domain/clock.ts'
import type { ProviderFetch } from './provider-fetch.ts'

const KEYS_TTL_MS = 300_000
/** The provider is asked again for a token that none of its known keys signed, at most once in this time. */
const ASK_AGAIN_MS = 5_000

/** @throws unless one of the provider's keys signed the token */
export type VerifySignature = (token: string) => Promise<void>

/** A provider may change its keys at any time, and sign with a new one at once. */
export function createSignatureVerifier(
  jwksUri: URL,
  { fetch, timeoutMs, clock }: Pick<ProviderFetch, 'fetch'> & { timeoutMs: number; clock: Clock },
): VerifySignature {
  const keys = createRemoteJWKSet(jwksUri, {
    [customFetch]: (url, options) => fetch(url, { ...options, body: undefined, headers: headersOf(options) }),
    timeoutDuration: timeoutMs,
    cacheMaxAge: KEYS_TTL_MS,
    // Its own pause begins with any request, so a key that changes right after it would not be found.
    cooldownDuration: Number.POSITIVE_INFINITY,
  })
  let again: { readonly atMs: number; readonly done: Promise<void> } | null = null

  function askAgain(): Promise<void> {
    const nowMs = clock.monotonicMs()
    if (again === null || nowMs >= again.atMs + ASK_AGAIN_MS) again = { atMs: nowMs, done: keys.reload() }
    return again.done
  }

  return async token => {
    try {
      await compactVerify(token, keys)
    } catch (error) {
      if (!isOfUnknownKey(error)) throw error
      await askAgain()
      await compactVerify(token, keys)
    }
  }
}

/** A wrong signature, too: keys need no id, and some providers use one for all. */
function isOfUnknownKey(error: unknown): boolean {
  return error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWSSignatureVerificationFailed
}

function headersOf({ headers }: { readonly headers: Headers }): Record<string, string> {
  return Object.fromEntries(headers)
}
