import type { Config } from '../../config/schema/schema.ts'
import type { Clock } from '../../domain/clock.ts'
import { FailureLog, type Log } from '../../observability/failure-log.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import type { KeyServiceClient } from '../tiers/key-service/key-service-client.ts'
import { UsageCounts } from './usage-counts.ts'
import { UsageExporter } from './usage-exporter.ts'
import { UsageReporter } from './usage-reporter.ts'

/** The console responds to a report after its commit, which a slow database delays. No request waits for it. */
const MIN_REPORT_TIMEOUT_MS = 5_000

export interface UsageSettings {
  readonly config: Pick<Config, 'keyService' | 'usage' | 'refusals' | 'outgoing'>
  readonly metrics: Metrics
  readonly logger: Log
  readonly clock: Clock
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
  })
  const timeoutMs = Math.max(config.keyService.timeoutMs, MIN_REPORT_TIMEOUT_MS)
  const failuresOf = (part: string) => new FailureLog(part, logger, clock)
  const exporting = { failures: failuresOf('usage export'), metrics, timeoutMs, proxies: config.outgoing }
  const reporter = new UsageReporter({
    client,
    clock,
    failures: failuresOf('usage report'),
    metrics,
    counts,
    exporter: url === undefined ? null : new UsageExporter({ ...exporting, url }),
    gateway,
    periodMs: reportSeconds * 1000,
    timeoutMs,
  })
  return { counts, reporter }
}
