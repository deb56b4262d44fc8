import { Histogram, type LabelValues } from 'prom-client'
import { HandleHistogram, type HandleHistogramConfiguration } from './metric-handles.ts'

/** A histogram handle that can attach a trace id to an observation. */
export interface RequestDurationHandle {
  /** @param traceId id of a recorded trace, else null: an exemplar must lead to an existing trace */
  observe(seconds: number, traceId: string | null): void
}

type RequestLabel = 'route' | 'code_class'

interface RequestDuration {
  handle(labels: LabelValues<RequestLabel>): RequestDurationHandle
}

/** Uses prom-client's own histogram only if exemplars are exposed: the others do not support them. */
export function declareRequestDuration(
  configuration: HandleHistogramConfiguration<RequestLabel>,
  exemplars: boolean,
): RequestDuration {
  if (!exemplars) return new HandleHistogram(configuration)
  const { buckets, ...rest } = configuration
  const histogram = new Histogram({ ...rest, buckets: [...buckets], enableExemplars: true })
  return {
    handle(labels) {
      // Runs once for each set of labels, because RouteCounters stores its handles.
      histogram.zero(labels)
      return {
        observe: (value, traceId) =>
          histogram.observe({ labels, value, exemplarLabels: exemplarOf(traceId) }),
      }
    },
  }
}

/** prom-client's types expect the metric's labels here, but an exemplar has labels of its own (OpenMetrics 1.0). */
function exemplarOf(traceId: string | null): Record<string, string> {
  return traceId === null ? {} : { trace_id: traceId }
}
