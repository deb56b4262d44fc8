import type { FailureLog } from '../../observability/failure-log.ts'
import type { KeyTier } from '../key-store.ts'

/** Logs when lookups in a store start to fail, and when they succeed again. */
export function withFailureLog(tier: KeyTier, failures: FailureLog): KeyTier {
  return {
    name: tier.name,
    async get(digest) {
      const result = await tier.get(digest)
      if (result.kind === 'failed') failures.failed(result.error)
      else failures.succeeded()
      return result
    },
  }
}
