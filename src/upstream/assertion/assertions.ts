import { LRUCache } from 'lru-cache'
import type { KeyGrant } from '../../domain/key/key-record.ts'
import type { CounterHandle } from '../../observability/metrics/metrics.ts'
import { type AssertionSettings, assertionClaims, isReusable } from './assertion-claims.ts'
import type { SignAssertion } from './assertion-signer.ts'

/** Keys whose assertion is reused; for others one is signed at each request. About 1 KiB each. */
const MAX_REUSED = 16_384

/** Tells the upstream which key a request was made with, in a form that it can verify. */
export interface Assertions {
  /**
   * @param target path and query that the upstream receives
   * @returns the assertion at once if one is reused, else when it is signed; rejects if it cannot be signed
   */
  assertionFor(grant: KeyGrant, target: string): string | Promise<string>
}

export interface AssertionParts {
  readonly settings: AssertionSettings
  readonly sign: SignAssertion
  readonly reused: CounterHandle
  /** Milliseconds since the epoch. */
  readonly nowMs: () => number
}

export function createAssertions(parts: AssertionParts): Assertions {
  return parts.settings.bind === 'request' ? new RequestAssertions(parts) : new KeyAssertions(parts)
}

/** One assertion for each request. */
class RequestAssertions implements Assertions {
  readonly #parts: AssertionParts

  constructor(parts: AssertionParts) {
    this.#parts = parts
  }

  assertionFor(grant: KeyGrant, target: string): Promise<string> {
    const { settings, sign, nowMs } = this.#parts
    return sign(assertionClaims(settings, grant, target, nowMs()))
  }
}

interface SignedAssertion {
  readonly grant: KeyGrant
  readonly issuedAtMs: number
  /** A promise while it is being signed: concurrent requests of a key share it. */
  assertion: string | Promise<string>
}

/** One assertion for all requests of a key within half of its life. */
class KeyAssertions implements Assertions {
  readonly #parts: AssertionParts
  readonly #byKey = new LRUCache<string, SignedAssertion>({ max: MAX_REUSED })

  constructor(parts: AssertionParts) {
    this.#parts = parts
  }

  assertionFor(grant: KeyGrant): string | Promise<string> {
    const { settings, reused, nowMs: readClock } = this.#parts
    const nowMs = readClock()
    const signed = this.#byKey.get(grant.id)
    if (signed === undefined || !isReusable(signed, grant, nowMs, settings.lifetimeSeconds)) {
      return this.#renew(grant, nowMs)
    }
    reused.inc()
    return signed.assertion
  }

  #renew(grant: KeyGrant, nowMs: number): Promise<string> {
    const { settings, sign } = this.#parts
    const claims = assertionClaims(settings, grant, null, nowMs)
    const signing = sign(claims)
    const entry: SignedAssertion = { grant, issuedAtMs: claims.iat * 1000, assertion: signing }
    this.#byKey.set(grant.id, entry)
    signing.then(
      assertion => {
        entry.assertion = assertion
      },
      () => {
        // The next request tries again.
        if (this.#byKey.get(grant.id) === entry) this.#byKey.delete(grant.id)
      },
    )
    return signing
  }
}
