import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { freePort } from './free-port.ts'
import { end, ready } from './ready.ts'

export interface Target {
  readonly url: string
  readonly labels: Readonly<Record<string, string>>
}

export interface Series {
  readonly labels: Readonly<Record<string, string>>
  /** Seconds since the epoch, and the value, which may be NaN or infinite. */
  readonly points: readonly (readonly [atSeconds: number, value: number])[]
}

export interface RuleState {
  readonly name: string
  readonly health: string
  readonly lastError?: string
}

export interface ActiveAlert {
  readonly state: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}

export interface Exemplar {
  readonly labels: Readonly<Record<string, string>>
  readonly value: string
}

const START_DEADLINE_MS = 20_000
/** As in the chart. */
const MAX_SCRAPE_SECONDS = 10

/** Of `/proc/PID/stat`, which counts in hundredths of a second: the fields after the name in parentheses. */
const USER_TIME = 11
const SYSTEM_TIME = 12

/** A real Prometheus that scrapes every second, by default. */
export class PrometheusServer {
  readonly url: string
  readonly #process: ChildProcess
  readonly #directory: string

  private constructor(process: ChildProcess, directory: string, url: string) {
    this.#process = process
    this.#directory = directory
    this.url = url
  }

  /**
   * @param rules texts of rule files
   * @param flags further command-line flags
   * @param fill writes blocks to the directory of its data before it starts
   * @param intervalSeconds between scrapes, and between evaluations
   */
  static async start(
    targets: readonly Target[],
    rules: readonly string[],
    flags: readonly string[] = [],
    fill: (data: string) => void = () => {},
    intervalSeconds = 1,
  ): Promise<PrometheusServer> {
    const directory = await mkdtemp(join(tmpdir(), 'postern-prometheus-'))
    fill(join(directory, 'data'))
    const ruleFiles = rules.map((_, index) => join(directory, `rules-${index}.yaml`))
    await Promise.all(rules.map((text, index) => writeFile(ruleFiles[index] ?? '', text)))
    const settings = join(directory, 'prometheus.yaml')
    await writeFile(settings, stringify(settingsOf(targets, ruleFiles, intervalSeconds)))
    const address = `127.0.0.1:${await freePort()}`
    const process = spawn(
      'prometheus',
      [
        `--config.file=${settings}`,
        `--storage.tsdb.path=${join(directory, 'data')}`,
        `--web.listen-address=${address}`,
        '--log.level=error',
        ...flags,
      ],
      { stdio: ['ignore', 'ignore', 'inherit'] },
    )
    const server = new PrometheusServer(process, directory, `http://${address}`)
    return ready(server, process, () => server.#isReady(), START_DEADLINE_MS)
  }

  /** Processor time that it has used. */
  async cpuSeconds(): Promise<number> {
    const stat = await readFile(`/proc/${this.#process.pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[USER_TIME]) + Number(fields[SYSTEM_TIME])) / 100
  }

  /** Values of a query, one per step. @throws with the error text of Prometheus */
  async range(expr: string, fromSeconds: number, toSeconds: number, stepSeconds = 1): Promise<Series[]> {
    const query = new URLSearchParams({
      query: expr,
      start: String(fromSeconds),
      end: String(toSeconds),
      step: String(stepSeconds),
    })
    const { result } = await this.#query<{
      result: { metric: Series['labels']; values: [number, string][] }[]
    }>(`query_range?${query}`)
    return result.map(({ metric, values }) => ({
      labels: metric,
      points: values.map(([at, value]) => [at, numberOf(value)] as const),
    }))
  }

  /** Exemplars of a metric; needs the feature `exemplar-storage`. */
  async exemplars(metric: string): Promise<Exemplar[]> {
    const query = new URLSearchParams({ query: metric, start: '0', end: String(Date.now() / 1000 + 60) })
    const found = await this.#query<{ exemplars: Exemplar[] }[]>(`query_exemplars?${query}`)
    return found.flatMap(series => series.exemplars)
  }

  async rules(): Promise<RuleState[]> {
    const { groups } = await this.#query<{ groups: { rules: RuleState[] }[] }>('rules')
    return groups.flatMap(group => group.rules)
  }

  async firing(): Promise<ActiveAlert[]> {
    const { alerts } = await this.#query<{ alerts: ActiveAlert[] }>('alerts')
    return alerts.filter(alert => alert.state === 'firing')
  }

  async stop(): Promise<void> {
    await end(this.#process)
    await rm(this.#directory, { recursive: true, force: true })
  }

  async #isReady(): Promise<boolean> {
    const response = await fetch(`${this.url}/-/ready`).catch(() => null)
    return response?.status === 200
  }

  async #query<Data>(path: string): Promise<Data> {
    const response = await fetch(`${this.url}/api/v1/${path}`)
    const answer = (await response.json()) as { status: string; error?: string; data: Data }
    if (answer.status !== 'success') throw new Error(answer.error ?? `Prometheus answered ${response.status}`)
    return answer.data
  }
}

function settingsOf(
  targets: readonly Target[],
  ruleFiles: readonly string[],
  intervalSeconds: number,
): object {
  const interval = `${intervalSeconds}s`
  const timeout = `${Math.min(intervalSeconds, MAX_SCRAPE_SECONDS)}s`
  return {
    global: { scrape_interval: interval, scrape_timeout: timeout, evaluation_interval: interval },
    rule_files: ruleFiles,
    scrape_configs: targets.map(({ url, labels }, index) => ({
      job_name: `target-${index}`,
      static_configs: [{ targets: [new URL(url).host], labels }],
    })),
  }
}

function numberOf(text: string): number {
  if (text === '+Inf') return Number.POSITIVE_INFINITY
  return text === '-Inf' ? Number.NEGATIVE_INFINITY : Number(text)
}
