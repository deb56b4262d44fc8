import {
  Counter,
  Gauge,
  type GaugeConfiguration,
  Histogram,
  type LabelValues,
  type MetricObjectWithValues,
  type MetricType,
  type MetricValueWithName,
  type Registry,
  type RegistryContentType,
} from 'prom-client'

/** A counter for fixed label values. */
export interface CounterHandle {
  inc(by?: number): void
}

/** A histogram for fixed label values. */
export interface HistogramHandle {
  observe(value: number): void
}

/**
 * A counter whose handles add to plain numbers, which prom-client collects at a scrape. prom-client's own children build and
 * check a text of all labels at each increment: with nine counters a request, about 9 % of a forwarded request.
 */
export class HandleCounter<Label extends string> extends Counter<Label> {
  readonly #handles: Handles<Label, PendingCount>

  constructor(configuration: MetricDeclaration<Label>) {
    const handles = new Handles<Label, PendingCount>()
    super({
      ...configuration,
      collect() {
        for (const { labels, handle } of handles.all()) this.inc(labels, handle.take())
      },
    })
    this.#handles = handles
  }

  /** Starts at zero, so that the series exists before the first increment. */
  handle(labels: LabelValues<Label>): CounterHandle {
    this.inc(labels, 0)
    return this.#handles.of(labels, () => new PendingCount())
  }
}

type MetricDeclaration<Label extends string> = Pick<
  GaugeConfiguration<Label>,
  'name' | 'help' | 'labelNames' | 'registers'
>

interface HandleHistogramConfiguration<Label extends string> extends MetricDeclaration<Label> {
  readonly buckets: readonly number[]
}

/** prom-client's types declare an enumeration, whose value at run time is this string. */
const HISTOGRAM = 'histogram' as unknown as MetricType.Histogram

/**
 * A histogram whose handles count in plain numbers, for the same reason. prom-client offers no way to set the buckets of its
 * Histogram, so this class overrides `get` to report one.
 */
export class HandleHistogram<Label extends string> extends Gauge<Label> {
  readonly upperBounds: readonly number[]
  readonly #name: string
  readonly #help: string
  readonly #handles = new Handles<Label, Buckets>()

  constructor({ buckets, ...configuration }: HandleHistogramConfiguration<Label>) {
    super(configuration)
    this.#name = configuration.name
    this.#help = configuration.help
    this.upperBounds = buckets
  }

  /** Starts at zero, so that the series exists before the first observation. */
  handle(labels: LabelValues<Label>): HistogramHandle {
    return this.#handles.of(labels, () => new Buckets(this.upperBounds))
  }

  override async get(): Promise<MetricObjectWithValues<MetricValueWithName<Label>>> {
    const values = [...this.#handles.all()].flatMap(({ labels, handle }) =>
      this.#createSamples(labels, handle),
    )
    const described = { name: this.#name, help: this.#help, type: HISTOGRAM, aggregator: 'sum' } as const
    return { ...described, collect: () => {}, values }
  }

  #createSamples(labels: LabelValues<Label>, buckets: Buckets): MetricValueWithName<Label>[] {
    return [
      // The type of a sample's labels omits `le`, which prom-client's own buckets have, too.
      ...buckets.cumulative().map(([le, value]) => ({
        labels: { le, ...labels } as LabelValues<Label>,
        value,
        metricName: `${this.#name}_bucket`,
      })),
      { labels, value: buckets.sum, metricName: `${this.#name}_sum` },
      { labels, value: buckets.count, metricName: `${this.#name}_count` },
    ]
  }
}

/** A gauge whose value is read at each scrape. */
export class CollectedGauge<Label extends string> extends Gauge<Label> {
  readonly #source: { collect: (gauge: Gauge<Label>) => void }

  constructor(configuration: MetricDeclaration<Label>) {
    const source = { collect: (_gauge: Gauge<Label>): void => {} }
    super({
      ...configuration,
      collect() {
        source.collect(this)
      },
    })
    this.#source = source
  }

  /** @param collect sets the current values; replaces an earlier `collect` */
  onCollect(collect: (gauge: Gauge<Label>) => void): void {
    this.#source.collect = collect
  }
}

/** @returns one handle for each name of a closed set of label values */
export function handlesBy<Name extends string, Handle>(
  names: readonly Name[],
  make: (name: Name) => Handle,
): Readonly<Record<Name, Handle>> {
  // The entries have all the names; `Object.fromEntries` loses their type.
  return Object.fromEntries(names.map(name => [name, make(name)])) as Record<Name, Handle>
}

/** Stores one handle for each set of label values. */
class Handles<Label extends string, Handle> {
  readonly #byLabels = new Map<string, { readonly labels: LabelValues<Label>; readonly handle: Handle }>()

  of(labels: LabelValues<Label>, make: () => Handle): Handle {
    const name = JSON.stringify(Object.entries(labels).sort())
    const known = this.#byLabels.get(name)
    if (known !== undefined) return known.handle
    const handle = make()
    this.#byLabels.set(name, { labels, handle })
    return handle
  }

  all(): Iterable<{ readonly labels: LabelValues<Label>; readonly handle: Handle }> {
    return this.#byLabels.values()
  }
}

class PendingCount implements CounterHandle {
  #pending = 0

  inc(by = 1): void {
    this.#pending += by
  }

  take(): number {
    const taken = this.#pending
    this.#pending = 0
    return taken
  }
}

class Buckets implements HistogramHandle {
  sum = 0
  count = 0
  readonly #upperBounds: readonly number[]
  readonly #counts: number[]

  constructor(upperBounds: readonly number[]) {
    this.#upperBounds = upperBounds
    this.#counts = upperBounds.map(() => 0)
  }

  observe(value: number): void {
    this.sum += value
    this.count++
    const index = this.#upperBounds.findIndex(bound => value <= bound)
    if (index >= 0) this.#counts[index] = (this.#counts[index] ?? 0) + 1
  }

  cumulative(): (readonly [le: number | '+Inf', count: number])[] {
    let below = 0
    const bounded = this.#upperBounds.map((bound, index) => {
      below += this.#counts[index] ?? 0
      return [bound, below] as const
    })
    return [...bounded, ['+Inf', this.count]]
  }
}

export type MetricRegistry = Registry<RegistryContentType>
export type MetricDeclarations = ReturnType<typeof metricDeclarations>

export const LATENCY_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** Functions that declare a metric and register it. @param registers empty if the metric is not exposed */
export function metricDeclarations(registers: MetricRegistry[]) {
  return {
    counter: <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
      new HandleCounter({ name, help, labelNames, registers }),
    gauge: <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
      new Gauge({ name, help, labelNames, registers }),
    collected: <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
      new CollectedGauge({ name, help, labelNames, registers }),
    histogram: <Label extends string>(
      name: string,
      help: string,
      labelNames: readonly Label[] = [],
      buckets: readonly number[] = LATENCY_SECONDS,
    ) => new HandleHistogram({ name, help, labelNames, buckets, registers }),
  }
}

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
          histogram.observe({ labels, value, exemplarLabels: exemplarLabels(traceId) }),
      }
    },
  }
}

/** prom-client's types expect the metric's labels here, but an exemplar has labels of its own (OpenMetrics 1.0). */
function exemplarLabels(traceId: string | null): Record<string, string> {
  return traceId === null ? {} : { trace_id: traceId }
}
