import type { Metric } from 'prom-client'

/** The value of one child of a metric, as a scrape shows it; 0 if it does not exist. */
export async function metricValue(metric: Metric, labels: Record<string, string> = {}): Promise<number> {
  const { values } = await metric.get()
  const child = values.find(value =>
    Object.entries(labels).every(([name, wanted]) => value.labels[name] === wanted),
  )
  return child?.value ?? 0
}
