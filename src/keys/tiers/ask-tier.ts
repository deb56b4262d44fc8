import { asError } from '../../observability/trouble-log.ts'
import type { KeyTier, TierAnswer } from '../key-store.ts'

/** Asks a tier, of which what is thrown against its word is an answer, too. */
export async function askTier(tier: KeyTier, digest: string): Promise<TierAnswer> {
  try {
    return await tier.get(digest)
  } catch (thrown) {
    return { kind: 'failed', error: asError(thrown), why: 'unusable' }
  }
}
