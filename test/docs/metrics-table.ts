import type { Metric } from 'prom-client'
import { createMetrics, PARTS, type Part } from '../../src/observability/metrics/metrics.ts'

export const METRICS_PAGE = new URL('../../docs/operate/metrics.md', import.meta.url)

const BEGIN = '<!-- metrics -->'
const END = '<!-- /metrics -->'

/** The page with its table of metrics generated again; the text around the two markers stays. */
export function withCurrentMetrics(page: string): string {
  const begin = page.indexOf(BEGIN)
  const end = page.indexOf(END)
  if (begin < 0 || end < begin) throw new Error(`The page must hold ${BEGIN} and, after it, ${END}`)
  return `${page.slice(0, begin)}${BEGIN}\n\n${metricsTable()}\n${page.slice(end)}`
}

function metricsTable(): string {
  const rows = PARTS_OF_PAGE.flatMap(part => ownMetrics(part))
  return ['| metric | labels | meaning |', '| --- | --- | --- |', ...rows].map(row => `${row}\n`).join('')
}

/** Null: the metrics of every process. */
const PARTS_OF_PAGE: readonly (Part | null)[] = [null, ...PARTS]

/** @returns rows of the metrics that this part adds to those of every process */
function ownMetrics(part: Part | null): string[] {
  const common = new Set(part === null ? [] : namesOf(createMetrics([])))
  const { registry } = createMetrics(part === null ? [] : [part])
  return registry
    .getMetricsAsArray()
    .map(({ name, help }) => ({ name, help, labels: labelsOf(registry.getSingleMetric(name)) }))
    .filter(({ name }) => name.startsWith('postern_') && !common.has(name))
    .map(
      ({ name, help, labels }) =>
        `| \`${name}\` | ${labels.map(label => `\`${label}\``).join(', ')} | ${help} |`,
    )
}

function namesOf({ registry }: ReturnType<typeof createMetrics>): string[] {
  return registry.getMetricsAsArray().map(({ name }) => name)
}

/** The library's types do not declare the label names. */
function labelsOf(metric: Metric | undefined): readonly string[] {
  if (metric === undefined || !('labelNames' in metric) || !Array.isArray(metric.labelNames)) return []
  return metric.labelNames.filter(label => typeof label === 'string')
}
