/** A dashboard as it is thought of; `toGrafana` makes of it what Grafana reads. */
export interface Board {
  /** Never changed: links and bookmarks stand on it. */
  readonly uid: string
  readonly file: string
  readonly title: string
  readonly description: string
  /** Whether the variable `route` has a meaning on it. */
  readonly byRoute: boolean
  readonly rows: readonly Row[]
}

export interface Row {
  readonly title: string
  readonly panels: readonly Panel[]
}

export interface Panel {
  readonly title: string
  readonly description: string
  readonly kind: 'timeseries' | 'stat' | 'heatmap'
  readonly unit: Unit
  readonly queries: readonly Query[]
  /** Of 24 columns. */
  readonly width: number
  readonly stacked?: boolean
  /** Where the scale ends, for shares and states. */
  readonly max?: number
  /** From where on a value is a warning, and an alarm; descending where less is worse. */
  readonly limits?: readonly [warning: number, alarm: number]
  /** The section of the runbooks that says what to do: `#posternkeystoreunavailable`. */
  readonly runbook?: string
}

export interface Query {
  readonly expr: string
  readonly legend: string
}

/** Grafana's names. */
export type Unit =
  | 'reqps'
  | 'ops'
  | 'percentunit'
  | 's'
  | 'bytes'
  | 'Bps'
  | 'short'
  | 'none'
  | 'dateTimeFromNow'

/** What the variables at the top of a dashboard choose. */
export const CHOSEN = 'cluster=~"$cluster",namespace=~"$namespace",job=~"$job",pod=~"$pod"'
/** Of recorded series, which know no pods. */
export const CHOSEN_JOB = 'cluster=~"$cluster",namespace=~"$namespace",job=~"$job"'
export const CHOSEN_ROUTE = `${CHOSEN},route=~"$route"`

const within = (chosen: string, matchers: string) => (matchers === '' ? chosen : `${chosen},${matchers}`)

/** The rate of a counter, summed up by these labels. */
export function rate(metric: string, by = '', matchers = '', chosen = CHOSEN): string {
  const of = `rate(${metric}{${within(chosen, matchers)}}[$__rate_interval])`
  return by === '' ? `sum(${of})` : `sum by (${by}) (${of})`
}

export function gauge(metric: string, by = '', matchers = '', how = 'sum'): string {
  const of = `${metric}{${within(CHOSEN, matchers)}}`
  return by === '' ? `${how}(${of})` : `${how} by (${by}) (${of})`
}

/** A quantile of a histogram; without its name's `_bucket`. */
export function quantile(q: number, metric: string, by = '', matchers = '', chosen = CHOSEN): string {
  const labels = by === '' ? 'le' : `le, ${by}`
  return `histogram_quantile(${q}, ${rate(`${metric}_bucket`, labels, matchers, chosen)})`
}

export function quantiles(metric: string, matchers = '', chosen = CHOSEN): Query[] {
  return [0.5, 0.95, 0.99].map(q => ({
    expr: quantile(q, metric, '', matchers, chosen),
    legend: `p${q * 100}`,
  }))
}

/** The share of requests that Prometheus' rules and these panels both speak of. */
export function share(part: string, whole: string): string {
  return `${part} / ${whole}`
}
