import type { TroubleLog } from '../../observability/trouble-log.ts'
import type { KeyTier } from '../key-store.ts'

/** Tells when a tier stops answering, and when it answers again. */
export function withTroubleLog(tier: KeyTier, trouble: TroubleLog): KeyTier {
  return {
    name: tier.name,
    async get(digest) {
      const answer = await tier.get(digest)
      if (answer.kind === 'failed') trouble.failed(answer.error)
      else trouble.works()
      return answer
    },
  }
}
