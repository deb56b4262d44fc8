import { Histogram, type HistogramConfiguration, type LabelValues } from 'prom-client'
import { TallyHistogram } from './tally.ts'

/** One child of a histogram that may show a trace beside its figures. */
export interface TracedDistribution {
  /** @param traceId of a trace that was recorded, else null: who looks for the others finds nothing */
  observe(seconds: number, traceId: string | null): void
}

type RequestLabel = 'route' | 'code_class'

interface TracedHistogram {
  /** To be kept by whoever observes; at zero from now on. */
  child(labels: LabelValues<RequestLabel>): TracedDistribution
}

/** Where no traces are shown, their cost is not owed. */
export function declareRequestDuration(
  configuration: HistogramConfiguration<RequestLabel> & { buckets: number[] },
  exemplars: boolean,
): TracedHistogram {
  if (!exemplars) return new TallyHistogram(configuration)
  const histogram = new Histogram({ ...configuration, enableExemplars: true })
  return {
    child(labels) {
      histogram.zero(labels)
      return {
        observe: (value, traceId) =>
          histogram.observe({ labels, value, exemplarLabels: exemplarOf(traceId) }),
      }
    },
  }
}

/** Its type wants the labels of the metric; what it takes are labels of their own (OpenMetrics 1.0, Exemplars). */
function exemplarOf(traceId: string | null): Record<string, string> {
  return traceId === null ? {} : { trace_id: traceId }
}
