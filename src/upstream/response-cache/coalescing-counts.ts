import { type CounterHandle, handlesBy, type Metrics, SHARING_RESULTS } from '../../observability/metrics.ts'

export type SharingCounts = Readonly<Record<(typeof SHARING_RESULTS)[number], CounterHandle>>

/** Resolved once, at zero from the start. */
export function sharingCountsOf(metrics: Metrics): SharingCounts {
  return handlesBy(SHARING_RESULTS, result => metrics.sharedAnswers.handle({ result }))
}
