import {
  Counter,
  Histogram,
  type HistogramConfiguration,
  type LabelValues,
  type MetricObjectWithValues,
  type MetricType,
  type MetricValueWithName,
} from 'prom-client'

/** The library's types have an enumeration for it, its code has none. */
const HISTOGRAM = 'histogram' as unknown as MetricType.Histogram

/** One child of a counter. */
export interface Tally {
  inc(by?: number): void
}

/** One child of a histogram. */
export interface Distribution {
  observe(seconds: number): void
}

/**
 * A counter whose children are plain numbers. The library makes a text of the labels whenever one counts, also through
 * its own children; what counts several times in each request is handed to it when somebody looks.
 */
export class TallyCounter<Label extends string> extends Counter<Label> {
  readonly #children = new Children<Label, PendingTally>()

  /** To be kept by whoever counts; at zero from now on. */
  child(labels: LabelValues<Label>): Tally {
    this.inc(labels, 0)
    return this.#children.of(labels, () => new PendingTally())
  }

  override get() {
    for (const { labels, child } of this.#children.all()) this.inc(labels, child.take())
    return super.get()
  }
}

/** One child for each set of labels, however often it is asked for. */
class Children<Label extends string, Child> {
  readonly #byLabels = new Map<string, { readonly labels: LabelValues<Label>; readonly child: Child }>()

  of(labels: LabelValues<Label>, make: () => Child): Child {
    const name = JSON.stringify(Object.entries(labels).sort())
    const known = this.#byLabels.get(name)
    if (known !== undefined) return known.child
    const child = make()
    this.#byLabels.set(name, { labels, child })
    return child
  }

  all(): Iterable<{ readonly labels: LabelValues<Label>; readonly child: Child }> {
    return this.#byLabels.values()
  }
}

class PendingTally implements Tally {
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

/** A histogram whose children are plain numbers, for the same reason. */
export class TallyHistogram<Label extends string> {
  readonly #name: string
  readonly #bounds: readonly number[]
  readonly #children = new Children<Label, Buckets>()

  constructor(configuration: HistogramConfiguration<Label> & { buckets: number[] }) {
    this.#name = configuration.name
    this.#bounds = configuration.buckets
    new ExportedHistogram(configuration, () => this.#values())
  }

  /** To be kept by whoever observes; at zero from now on. */
  child(labels: LabelValues<Label>): Distribution {
    return this.#children.of(labels, () => new Buckets(this.#bounds))
  }

  #values(): MetricValueWithName<string>[] {
    return [...this.#children.all()].flatMap(({ labels, child: buckets }) => [
      ...buckets.cumulative().map(([le, value]) => ({
        labels: { le, ...labels },
        value,
        metricName: `${this.#name}_bucket`,
      })),
      { labels, value: buckets.sum, metricName: `${this.#name}_sum` },
      { labels, value: buckets.count, metricName: `${this.#name}_count` },
    ])
  }
}

/** What the registry shows: the library's histogram with values of ours. */
class ExportedHistogram<Label extends string> extends Histogram<Label> {
  readonly #shown: () => MetricObjectWithValues<MetricValueWithName<string>>

  constructor(configuration: HistogramConfiguration<Label>, values: () => MetricValueWithName<string>[]) {
    super(configuration)
    const { name, help } = configuration
    this.#shown = () => ({
      name,
      help,
      type: HISTOGRAM,
      aggregator: 'sum',
      collect: () => {},
      values: values(),
    })
  }

  override async get(): Promise<MetricObjectWithValues<MetricValueWithName<Label>>> {
    // The library's type leaves out the label of a bucket's bound, which its own values have too.
    return this.#shown() as MetricObjectWithValues<MetricValueWithName<Label>>
  }

  /** The same, under the name by which the library asks where it writes text. */
  getForPromString(): Promise<MetricObjectWithValues<MetricValueWithName<Label>>> {
    return this.get()
  }
}

class Buckets implements Distribution {
  sum = 0
  count = 0
  readonly #bounds: readonly number[]
  readonly #counts: number[]

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = bounds.map(() => 0)
  }

  observe(value: number): void {
    this.sum += value
    this.count++
    const bounds = this.#bounds
    for (let index = 0; index < bounds.length; index++) {
      if (value <= (bounds[index] ?? Number.POSITIVE_INFINITY)) {
        this.#counts[index] = (this.#counts[index] ?? 0) + 1
        return
      }
    }
  }

  cumulative(): (readonly [le: number | '+Inf', count: number])[] {
    let below = 0
    const bounded = this.#bounds.map((bound, index) => {
      below += this.#counts[index] ?? 0
      return [bound, below] as const
    })
    return [...bounded, ['+Inf', this.count]]
  }
}

/** One child for each of a closed set of names. */
export function childrenBy<Name extends string, Child>(
  names: readonly Name[],
  make: (name: Name) => Child,
): Readonly<Record<Name, Child>> {
  // Made of all the names, which the compiler does not follow.
  return Object.fromEntries(names.map(name => [name, make(name)])) as Record<Name, Child>
}
