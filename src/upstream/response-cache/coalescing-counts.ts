import {
  type CounterHandle,
  handlesBy,
  type Metrics,
  SHARING_RESULTS,
} from '../../observability/metrics/metrics.ts'

export type CoalescingCounts = Readonly<Record<(typeof SHARING_RESULTS)[number], CounterHandle>>

/** Every series exists from the start, at zero. */
export function coalescingCountsOf(metrics: Metrics): CoalescingCounts {
  return handlesBy(SHARING_RESULTS, result => metrics.sharedAnswers.handle({ result }))
}
