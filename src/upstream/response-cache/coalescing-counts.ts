import {
  COALESCING_RESULTS,
  type CounterHandle,
  handlesBy,
  type Metrics,
} from '../../observability/metrics/metrics.ts'

export type CoalescingCounts = Readonly<Record<(typeof COALESCING_RESULTS)[number], CounterHandle>>

/** Every series exists from the start, at zero. */
export function coalescingCountsOf(metrics: Metrics): CoalescingCounts {
  return handlesBy(COALESCING_RESULTS, result => metrics.coalescedRequests.handle({ result }))
}
