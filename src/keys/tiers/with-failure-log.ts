import type { TroubleLog } from '../../observability/trouble-log.ts'
import type { KeyTier } from '../key-store.ts'

/** Logs when a store stops answering, and when it answers again. */
export function withFailureLog(tier: KeyTier, failures: TroubleLog): KeyTier {
  return {
    name: tier.name,
    async get(digest) {
      const answer = await tier.get(digest)
      if (answer.kind === 'failed') failures.failed(answer.error)
      else failures.works()
      return answer
    },
  }
}
