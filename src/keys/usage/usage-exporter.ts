import { once } from 'node:events'
import type { ProxySettings } from '../../domain/proxy.ts'
import { asError, type FailureLog } from '../../observability/failure-log.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import { OutgoingClient } from '../../outgoing/outgoing-client.ts'
import type { UsageReport } from './usage-report.ts'

const MINUTE_MS = 60_000
/** Reports that wait for the collector, of up to 300 KB each; beyond that, the oldest is dropped. */
const MAX_WAITING = 50
/** Client errors that a repetition may cure (RFC 9110, section 15.5), as for reports to the key service. */
const RETRYABLE_STATUSES = new Set([401, 403, 404, 408, 425, 429])

interface UsageExporterParts {
  readonly url: string
  readonly failures: FailureLog
  readonly metrics: Pick<Metrics, 'usageExports'>
  /** For one request. */
  readonly timeoutMs: number
  readonly proxies: ProxySettings
}

/**
 * Sends the counts of each report to a collector too, one JSON object a line. What was not accepted is repeated, so a line may
 * come twice: `gateway`, `sequence` and `index` identify it.
 */
export class UsageExporter {
  readonly #parts: UsageExporterParts
  readonly #url: URL
  readonly #client: OutgoingClient
  /** Bodies, the oldest first. */
  readonly #waiting: string[] = []
  #sending: Promise<void> | null = null

  constructor(parts: UsageExporterParts) {
    this.#parts = parts
    this.#url = new URL(parts.url)
    this.#client = new OutgoingClient({ proxies: parts.proxies, connectTimeoutMs: parts.timeoutMs })
  }

  add(report: UsageReport): void {
    if (report.counts.length === 0) return
    if (this.#waiting.length >= MAX_WAITING) {
      this.#waiting.shift()
      this.#parts.metrics.usageExports.inc({ outcome: 'dropped' })
    }
    this.#waiting.push(formatLines(report))
  }

  /** Sends what waits, until a request fails. Never rejects; calls during it join it. */
  send(deadline?: AbortSignal): Promise<void> {
    this.#sending ??= this.#sendAll(deadline).finally(() => {
      this.#sending = null
    })
    return this.#sending
  }

  /** Sends the rest, within the deadline. */
  async stop(deadline: AbortSignal): Promise<void> {
    if (this.#sending !== null) await Promise.race([this.#sending, once(deadline, 'abort')])
    if (!deadline.aborted) await this.send(deadline)
    await this.#client.stop()
  }

  async #sendAll(deadline: AbortSignal | undefined): Promise<void> {
    const { failures, metrics, timeoutMs } = this.#parts
    for (let body = this.#waiting[0]; body !== undefined; body = this.#waiting[0]) {
      try {
        const outcome = await this.#post(body, deadline ?? AbortSignal.timeout(timeoutMs))
        metrics.usageExports.inc({ outcome })
        failures.succeeded()
      } catch (error) {
        metrics.usageExports.inc({ outcome: 'failed' })
        failures.failed(asError(error))
        return
      }
      // While it was sent, it may have been dropped for a newer one.
      if (this.#waiting[0] === body) this.#waiting.shift()
    }
  }

  /** @throws if the collector may accept the same lines later */
  async #post(body: string, signal: AbortSignal): Promise<'accepted' | 'dropped'> {
    const headers = { 'content-type': 'application/x-ndjson' }
    const response = await this.#client.request(this.#url, { method: 'POST', headers, body, signal })
    await response.body.dump()
    const { statusCode } = response
    if (statusCode >= 200 && statusCode <= 299) return 'accepted'
    if (statusCode >= 400 && statusCode <= 499 && !RETRYABLE_STATUSES.has(statusCode)) return 'dropped'
    throw new Error(`The collector responded with status ${statusCode}`)
  }
}

function formatLines({ gateway, sequence, counts }: UsageReport): string {
  const lines = counts.map(({ minute, ...count }, index) => {
    const at = new Date(minute * MINUTE_MS).toISOString()
    return `${JSON.stringify({ at, ...count, gateway, sequence, index })}\n`
  })
  return lines.join('')
}
