import type { Config } from '../../config/schema/schema.ts'
import type { Clock } from '../../domain/clock.ts'
import { asError, FailureLog, type Log } from '../../observability/failure-log.ts'
import {
  type Metrics,
  USAGE_EXPORT_OUTCOMES,
  USAGE_REPORT_OUTCOMES,
} from '../../observability/metrics/metrics.ts'
import {
  type KeyServiceClient,
  type KeyServiceRequest,
  type KeyServiceResponse,
  NOT_OFFERED_REST_MS,
  OversizedResponse,
  ReportCall,
} from '../tiers/key-service-client.ts'
import { type NotedLimits, type ReportContent, UsageCounts } from './usage-counts.ts'
import { UsageExporter } from './usage-exporter.ts'
import { ReportSequence, refusedCounts, toReportBody, type UsageReport } from './usage-report.ts'

/** The console responds to a report after its commit, which a slow database delays. No request waits for it. */
const MIN_REPORT_TIMEOUT_MS = 5_000

interface UsageSettings {
  readonly config: Pick<Config, 'keyService' | 'usage' | 'refusals' | 'outgoing'>
  readonly metrics: Metrics
  readonly logger: Log
  readonly clock: Clock
  readonly nearLimits?: NotedLimits
}

export interface GatewayUsage {
  readonly counts: UsageCounts
  readonly reporter: UsageReporter
}

/** @param gateway unique to this process @returns null if usage is not reported */
export function createGatewayUsage(
  settings: UsageSettings,
  client: Pick<KeyServiceClient, 'request'>,
  gateway: string,
): GatewayUsage | null {
  const { config, metrics, logger, clock } = settings
  const { reportSeconds, enabled, maxEntries } = config.usage
  const { url } = config.usage.export
  if (reportSeconds === 0) return null
  const counts = new UsageCounts({
    clock,
    metrics,
    countsRequests: enabled,
    notesRefusals: config.refusals.enabled,
    maxEntries,
    limits: settings.nearLimits,
  })
  const timeoutMs = Math.max(config.keyService.timeoutMs, MIN_REPORT_TIMEOUT_MS)
  const createFailureLog = (part: string) => new FailureLog(part, logger, clock)
  const exporting = {
    failures: createFailureLog('usage export'),
    metrics,
    timeoutMs,
    proxies: config.outgoing,
  }
  const reporter = new UsageReporter({
    client,
    clock,
    failures: createFailureLog('usage report'),
    metrics,
    counts,
    exporter: url === undefined ? null : new UsageExporter({ ...exporting, url }),
    gateway,
    periodMs: reportSeconds * 1000,
    timeoutMs,
  })
  return { counts, reporter }
}

/** The console names at most 20 refused entries, of about a hundred bytes each. */
const MAX_RESPONSE_BYTES = 64 * 1024
/** A report that makes the key service fail so often in a row may be the cause of it. */
const MAX_INTERNAL_ERRORS = 10
/** A stopping process waits at most this long for its last reports. */
const MAX_LAST_REPORT_MS = 2_000
/** And for the last lines to a collector. */
const MAX_LAST_EXPORT_MS = 1_000
/** Without requests, one report in so many periods says that there were none: the console shows until when counts are complete. */
const IDLE_PERIODS = 3
const EMPTY: ReportContent = { used: {}, counts: [], refusals: [] }

interface UsageReporterParts {
  readonly client: Pick<KeyServiceClient, 'request'>
  readonly clock: Clock
  readonly failures: FailureLog
  readonly metrics: Pick<Metrics, 'usageReportsSent' | 'usageReportDelay' | 'usageEntries' | 'usageExports'>
  readonly counts: UsageCounts
  /** Null if the counts are not exported. */
  readonly exporter: UsageExporter | null
  /** Unique to this process. */
  readonly gateway: string
  readonly periodMs: number
  /** For one call. */
  readonly timeoutMs: number
  /** From 0 to 1: when the first report is sent, so that gateways do not report at the same moment. */
  readonly random?: () => number
}

/**
 * Reports usage to the key service, one report at a time. A report that was not acknowledged is repeated unchanged, so that
 * it is counted once; new counts gather meanwhile. A killed process loses what it has not reported.
 */
export class UsageReporter {
  readonly #parts: UsageReporterParts
  readonly #reports: ReportSequence
  readonly #call = new ReportCall()
  #restUntilMs = Number.NEGATIVE_INFINITY
  /** When an empty report is due. */
  #idleUntilMs = Number.NEGATIVE_INFINITY
  /** Since when the current report has been repeated. */
  #lateSinceMs: number | null = null
  /** Responses to the current report in a row. */
  #internalErrors = 0
  #timer: NodeJS.Timeout | undefined
  #sending: Promise<void> | null = null
  #lastDeadline: AbortSignal | null = null

  constructor(parts: UsageReporterParts) {
    const { counts, metrics, gateway, exporter } = parts
    this.#parts = parts
    this.#reports = new ReportSequence(
      gateway,
      () => counts.take() ?? this.#takeNothing(),
      report => exporter?.add(report),
    )
    for (const outcome of USAGE_REPORT_OUTCOMES) metrics.usageReportsSent.inc({ outcome }, 0)
    for (const outcome of USAGE_EXPORT_OUTCOMES) metrics.usageExports.inc({ outcome }, 0)
    metrics.usageEntries.onCollect(gauge => gauge.set(counts.entries))
    metrics.usageReportDelay.onCollect(gauge => gauge.set(this.#delaySeconds()))
  }

  start(): void {
    const { periodMs, random = Math.random } = this.#parts
    const tick = () => {
      this.#timer = setTimeout(tick, periodMs).unref()
      void this.report()
      void this.#parts.exporter?.send()
    }
    this.#timer ??= setTimeout(tick, periodMs * random()).unref()
  }

  /** Sends what was counted so far. Never rejects; calls during a report join it. */
  report(): Promise<void> {
    this.#sending ??= this.#send().finally(() => {
      this.#sending = null
    })
    return this.#sending
  }

  /** Sends the last reports, within one deadline, and then what waits for the collector. */
  async stop(): Promise<void> {
    clearTimeout(this.#timer)
    const { exporter, timeoutMs } = this.#parts
    this.#lastDeadline = AbortSignal.timeout(Math.min(MAX_LAST_REPORT_MS, timeoutMs))
    await this.#sending
    await this.report()
    await exporter?.stop(AbortSignal.timeout(MAX_LAST_EXPORT_MS))
  }

  async #send(): Promise<void> {
    const { clock, counts, failures, periodMs } = this.#parts
    try {
      // Requests that end meanwhile wait for the next period.
      for (let left = counts.reports + 1; left > 0; left--) {
        const report = this.#reports.next()
        if (report === null) return
        this.#idleUntilMs = clock.monotonicMs() + (IDLE_PERIODS - 0.5) * periodMs
        // A key service of another maker does not want it.
        if (clock.monotonicMs() < this.#restUntilMs) this.#reports.settle()
        else await this.#sendReport(report)
      }
    } catch (error) {
      this.#parts.metrics.usageReportsSent.inc({ outcome: 'failed' })
      this.#lateSinceMs ??= clock.monotonicMs()
      counts.isLate = true
      failures.failed(asError(error))
    }
  }

  #takeNothing(): ReportContent | null {
    return this.#parts.clock.monotonicMs() < this.#idleUntilMs ? null : EMPTY
  }

  /** @throws if the report is to be repeated */
  async #sendReport(report: UsageReport): Promise<void> {
    const { clock, counts, failures, metrics, timeoutMs } = this.#parts
    const request = {
      method: 'POST',
      path: '/usage',
      body: toReportBody(report),
      maxBytes: MAX_RESPONSE_BYTES,
    } as const
    const deadline = this.#lastDeadline ?? AbortSignal.timeout(timeoutMs)
    const response = await this.#request(request, deadline)
    this.#internalErrors = response.status === 500 ? this.#internalErrors + 1 : 0
    const isPoison = this.#internalErrors >= MAX_INTERNAL_ERRORS
    const outcome = isPoison ? 'rejected' : this.#call.outcomeOf(response)
    this.#internalErrors = 0
    this.#reports.settle()
    this.#lateSinceMs = null
    counts.isLate = false
    if (outcome === 'not_offered') {
      this.#restUntilMs = clock.monotonicMs() + NOT_OFFERED_REST_MS
      return
    }
    metrics.usageReportsSent.inc({ outcome })
    if (outcome === 'accepted') {
      counts.noteRefused(refusedCounts(report, response.text))
      failures.succeeded()
      return
    }
    counts.noteDropped(report)
    failures.failed(new Error(`The key service rejected a report with status ${response.status}`))
  }

  /** What a response says beyond its bound is not needed: its status settles the report. */
  async #request(request: KeyServiceRequest, deadline: AbortSignal): Promise<KeyServiceResponse> {
    try {
      return await this.#parts.client.request(request, deadline)
    } catch (error) {
      if (error instanceof OversizedResponse) return { status: error.status, text: '' }
      throw error
    }
  }

  #delaySeconds(): number {
    return this.#lateSinceMs === null ? 0 : (this.#parts.clock.monotonicMs() - this.#lateSinceMs) / 1000
  }
}
