import { Histogram, type LabelValues } from 'prom-client'
import { HandleHistogram, type HandleHistogramConfiguration } from './metric-handles.ts'

/** A histogram handle that may show a trace beside its figures. */
export interface RequestDurationHandle {
  /** @param traceId of a recorded trace, else null: an exemplar must lead to a trace that exists */
  observe(seconds: number, traceId: string | null): void
}

type RequestLabel = 'route' | 'code_class'

interface RequestDuration {
  handle(labels: LabelValues<RequestLabel>): RequestDurationHandle
}

/** prom-client's own histogram, the only one with exemplars, is used only where they are shown. */
export function declareRequestDuration(
  configuration: HandleHistogramConfiguration<RequestLabel>,
  exemplars: boolean,
): RequestDuration {
  if (!exemplars) return new HandleHistogram(configuration)
  const { buckets, ...rest } = configuration
  const histogram = new Histogram({ ...rest, buckets: [...buckets], enableExemplars: true })
  return {
    handle(labels) {
      // Zeroed once for each set of labels: RouteCounters keeps its handles.
      histogram.zero(labels)
      return {
        observe: (value, traceId) =>
          histogram.observe({ labels, value, exemplarLabels: exemplarOf(traceId) }),
      }
    },
  }
}

/** prom-client's type wants the labels of the metric; it takes labels of the exemplar's own (OpenMetrics 1.0). */
function exemplarOf(traceId: string | null): Record<string, string> {
  return traceId === null ? {} : { trace_id: traceId }
}
