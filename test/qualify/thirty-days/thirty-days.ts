import { catalogue } from '../../observability/catalogue.ts'
import { partsOf } from '../../observability/promql.ts'
import { rules } from '../../observability/rule-files.ts'
import { type StoredSeries, writeBlock } from '../../support/tsdb/write-block.ts'

const DAYS = 30
/** As Prometheus compacts them: a tenth of the retention. */
const BLOCK_DAYS = 3
/** The chart's scrape interval, and the default interval of rules. */
export const STEP_SECONDS = 30
const BLOCK_SAMPLES = (BLOCK_DAYS * 86_400) / STEP_SECONDS
const COUNTERS = 16
const GAUGES = 4
const CONSTANT = COUNTERS + GAUGES

/** What one process exposes. */
export interface Exposition {
  readonly text: string
  /** The labels of its scrapes. */
  readonly target: Readonly<Record<string, string>>
}

/** Thirty days of these processes at 30 s, with the recordings that the rules would have made of them. */
export class ThirtyDays {
  readonly toSeconds = Math.floor(Date.now() / 1000 / STEP_SECONDS) * STEP_SECONDS
  readonly fromSeconds = this.toSeconds - DAYS * 86_400
  readonly series: readonly StoredSeries[]

  constructor(expositions: readonly Exposition[]) {
    const scraped = expositions.flatMap(seriesOf)
    this.series = [...scraped, ...recordedFrom(scraped)]
  }

  /** Writes them to the directory of a Prometheus that is not running. */
  writeTo(data: string): void {
    const next = Array.from({ length: COUNTERS }, (_, index) => counterFrom(index))
    for (let block = 0; block < DAYS / BLOCK_DAYS; block++) {
      const samples = Array.from({ length: BLOCK_SAMPLES }, (_, index) => index)
      const patterns = [
        ...next.map(count => samples.map(count)),
        ...Array.from({ length: GAUGES }, () => samples.map(() => Math.round(Math.random() * 50))),
        samples.map(() => 1),
      ]
      const fromMs = (this.fromSeconds + block * BLOCK_DAYS * 86_400) * 1000
      writeBlock(data, block + 1, { series: this.series, patterns, fromMs, stepMs: STEP_SECONDS * 1000 })
    }
  }
}

/** Requests of a Poisson process, about: 5 to 80 in each step. */
function counterFrom(index: number): () => number {
  let value = 0
  return () => {
    value += Math.round((index + 1) * 5 * Math.random() * 2)
    return value
  }
}

function seriesOf({ text, target }: Exposition): StoredSeries[] {
  return text
    .split('\n')
    .filter(line => line !== '' && !line.startsWith('#'))
    .map((line, index) => {
      const [, name = '', pairs = '', value = ''] = /^([\w:]+)(?:\{(.*)\})? (\S+)/.exec(line) ?? []
      const own = [...pairs.matchAll(/(\w+)="([^"]*)"/g)].map(([, label = '', of = '']) => [label, of])
      const labels = { ...Object.fromEntries(own), ...target, __name__: name } as Record<string, string>
      return { labels, pattern: patternOf(name, Number(value), index) }
    })
}

function patternOf(name: string, value: number, index: number): number {
  if (value === 0 || name.endsWith('_info')) return CONSTANT
  return /_(total|bucket|sum|count)$/.test(name) ? index % COUNTERS : COUNTERS + (index % GAUGES)
}

/** One series for each set of labels by which a rule groups. Rules come after those of which they are made. */
function recordedFrom(scraped: readonly StoredSeries[]): StoredSeries[] {
  const recorded: StoredSeries[] = []
  for (const { record, expr, labels: set = {} } of rules) {
    if (record === undefined) continue
    const { selectors } = partsOf(expr)
    const source = selectors[0]?.metric ?? ''
    const kept = ['namespace', 'job', ...(catalogue.get(record) ?? [])]
    const found = new Map<string, StoredSeries>()
    for (const { labels } of [...scraped, ...recorded].filter(
      ({ labels: { __name__ } }) => __name__ === source,
    )) {
      const own = Object.fromEntries(Object.entries(labels).filter(([label]) => kept.includes(label)))
      const all = { ...own, ...set, __name__: record }
      found.set(JSON.stringify(all), { labels: all, pattern: COUNTERS + (found.size % GAUGES) })
    }
    recorded.push(...found.values())
  }
  return recorded
}
