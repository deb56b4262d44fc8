import { asError } from '../../observability/failure-log.ts'
import type { KeyTier, TierResult } from '../key-store.ts'

/** Turns an exception of a store, which breaks the contract of `KeyTier`, into a failed result. */
export async function getSafely(tier: KeyTier, digest: string): Promise<TierResult> {
  try {
    return await tier.get(digest)
  } catch (thrown) {
    return { kind: 'failed', error: asError(thrown), why: 'unusable' }
  }
}
