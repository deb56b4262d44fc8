import { asError } from '../../observability/failure-log.ts'
import type { KeyTier, TierAnswer } from '../key-store.ts'

/** An exception that a store throws against its contract becomes an answer. */
export async function getSafely(tier: KeyTier, digest: string): Promise<TierAnswer> {
  try {
    return await tier.get(digest)
  } catch (thrown) {
    return { kind: 'failed', error: asError(thrown), why: 'unusable' }
  }
}
