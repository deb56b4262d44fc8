import { childrenBy, type Metrics, SHARING_RESULTS, type Tally } from '../../observability/metrics.ts'

export type SharingCounts = Readonly<Record<(typeof SHARING_RESULTS)[number], Tally>>

/** Resolved once, at zero from the start. */
export function sharingCountsOf(metrics: Metrics): SharingCounts {
  return childrenBy(SHARING_RESULTS, result => metrics.sharedAnswers.child({ result }))
}
