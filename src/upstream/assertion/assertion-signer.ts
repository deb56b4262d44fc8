import { SignJWT } from 'jose/jwt/sign'
import type { AssertionKey } from '../../domain/assertion-key.ts'
import { asError, type FailureLog } from '../../observability/failure-log.ts'
import type { CounterHandle, HistogramHandle } from '../../observability/metrics/metrics.ts'
import type { AssertionClaims } from './assertion-claims.ts'

/** Signing takes less than a millisecond, but waits for a thread, which slow name resolution may occupy. */
const DEADLINE_MS = 5_000

export interface SigningReports {
  readonly signed: CounterHandle
  readonly failed: CounterHandle
  readonly seconds: HistogramHandle
  readonly failures: Pick<FailureLog, 'failed' | 'succeeded'>
  /** Monotonic, ms. */
  readonly monotonicMs: () => number
}

/** Signs outside of the event loop. */
export type SignAssertion = (claims: AssertionClaims) => Promise<string>

export function createSigner(
  { privateKey, publicKey }: AssertionKey,
  reports: SigningReports,
): SignAssertion {
  const header = { alg: publicKey.alg, typ: 'JWT', kid: publicKey.kid }
  return async claims => {
    const beganMs = reports.monotonicMs()
    try {
      const signing = new SignJWT({ ...claims }).setProtectedHeader(header).sign(privateKey)
      const assertion = await withinDeadline(signing, DEADLINE_MS)
      reports.signed.inc()
      reports.seconds.observe((reports.monotonicMs() - beganMs) / 1000)
      reports.failures.succeeded()
      return assertion
    } catch (error) {
      reports.failed.inc()
      reports.failures.failed(asError(error))
      throw error
    }
  }
}

/** @throws if the signature takes longer; a late one is dropped */
export async function withinDeadline(signing: Promise<string>, deadlineMs: number): Promise<string> {
  const { promise: expired, reject } = Promise.withResolvers<string>()
  const error = new Error(`not signed within ${deadlineMs} ms`)
  const deadline = setTimeout(() => reject(error), deadlineMs)
  return Promise.race([signing, expired]).finally(() => clearTimeout(deadline))
}
