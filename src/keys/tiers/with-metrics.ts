import { handlesBy, LOOKUP_RESULTS, type Metrics } from '../../observability/metrics/metrics.ts'
import type { KeyTier, TierAnswer } from '../key-store.ts'
import { getSafely } from './get-safely.ts'

type Result = (typeof LOOKUP_RESULTS)[number]

/** Counts the answers of a store. */
export function withMetrics(tier: KeyTier, metrics: Metrics): KeyTier {
  const results = handlesBy(LOOKUP_RESULTS, result => metrics.lookups.handle({ tier: tier.name, result }))
  return {
    name: tier.name,
    async get(digest) {
      const answer = await getSafely(tier, digest)
      results[resultOf(answer)].inc()
      return answer
    },
  }
}

function resultOf(answer: TierAnswer): Result {
  switch (answer.kind) {
    case 'found':
      return 'hit'
    case 'absent':
      return 'negative'
    case 'miss':
      return answer.unreadable === true ? 'unreadable' : 'miss'
    case 'failed':
      return 'error'
  }
}
