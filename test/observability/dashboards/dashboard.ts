/** The source of a dashboard; `toGrafana` converts it to Grafana's JSON. */
export interface Dashboard {
  /** Never changes: links and bookmarks depend on it. */
  readonly uid: string
  readonly file: string
  readonly title: string
  readonly description: string
  /** Whether it has the variable `route`. */
  readonly byRoute: boolean
  /** The number of rows that are open at first; the panels of a folded row load when a reader opens it. Default: all. */
  readonly openRows?: number
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
  /** Columns, of 24. */
  readonly width: number
  readonly stacked?: boolean
  /** End of the scale, for ratios and states. */
  readonly max?: number
  /** Values from which the panel turns orange and red; descending if a lower value is worse. */
  readonly thresholds?: readonly [warning: number, alarm: number]
  /** Section of the runbooks for this panel: `#posternkeystoreunavailable`. */
  readonly runbook?: string
}

export interface Query {
  readonly expr: string
  readonly legend: string
}

/** Grafana's names of units. */
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

/** Matchers for the variables at the top of a dashboard. */
export const SELECTED = 'cluster=~"$cluster",namespace=~"$namespace",job=~"$job",pod=~"$pod"'
/** Matchers for recorded series, which have no label `pod`. */
export const SELECTED_JOB = 'cluster=~"$cluster",namespace=~"$namespace",job=~"$job"'
export const SELECTED_ROUTE = `${SELECTED},route=~"$route"`

const within = (chosen: string, matchers: string) => (matchers === '' ? chosen : `${chosen},${matchers}`)

/** The rate of a counter, summed by these labels. */
export function rate(metric: string, by = '', matchers = '', chosen = SELECTED): string {
  const of = `rate(${metric}{${within(chosen, matchers)}}[$__rate_interval])`
  return by === '' ? `sum(${of})` : `sum by (${by}) (${of})`
}

export function gauge(metric: string, by = '', matchers = '', how = 'sum'): string {
  const of = `${metric}{${within(SELECTED, matchers)}}`
  return by === '' ? `${how}(${of})` : `${how} by (${by}) (${of})`
}

/** A quantile of a histogram. @param metric without the suffix `_bucket` */
export function quantile(q: number, metric: string, by = '', matchers = '', chosen = SELECTED): string {
  const labels = by === '' ? 'le' : `le, ${by}`
  return `histogram_quantile(${q}, ${rate(`${metric}_bucket`, labels, matchers, chosen)})`
}

export function quantiles(metric: string, matchers = '', chosen = SELECTED): Query[] {
  return [0.5, 0.95, 0.99].map(q => ({
    expr: quantile(q, metric, '', matchers, chosen),
    legend: `p${q * 100}`,
  }))
}

/** The ratio of two expressions. */
export function ratio(part: string, whole: string): string {
  return `${part} / ${whole}`
}
