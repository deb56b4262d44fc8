import type { FailureLog } from '../../observability/failure-log.ts'
import type { KeyTier } from '../key-store.ts'

/** Logs when lookups of a store begin to fail, and when they recover. */
export function withFailureLog(tier: KeyTier, failures: FailureLog): KeyTier {
  return {
    name: tier.name,
    async get(digest) {
      const answer = await tier.get(digest)
      if (answer.kind === 'failed') failures.failed(answer.error)
      else failures.succeeded()
      return answer
    },
  }
}
