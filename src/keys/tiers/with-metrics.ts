import { handlesBy, LOOKUP_RESULTS, type Metrics } from '../../observability/metrics/metrics.ts'
import type { KeyTier, TierResult } from '../key-store.ts'
import { getSafely } from './get-safely.ts'

type ResultLabel = (typeof LOOKUP_RESULTS)[number]

/** Counts the results of a store. */
export function withMetrics(tier: KeyTier, metrics: Metrics): KeyTier {
  const handles = handlesBy(LOOKUP_RESULTS, result => metrics.lookups.handle({ tier: tier.name, result }))
  return {
    name: tier.name,
    async get(digest) {
      const result = await getSafely(tier, digest)
      handles[labelOf(result)].inc()
      return result
    },
  }
}

function labelOf(result: TierResult): ResultLabel {
  switch (result.kind) {
    case 'found':
      return 'hit'
    case 'absent':
      return 'negative'
    case 'miss':
      return result.unreadable === true ? 'unreadable' : 'miss'
    case 'failed':
      return 'error'
  }
}
