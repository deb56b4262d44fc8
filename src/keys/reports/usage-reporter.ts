import { LRUCache } from 'lru-cache'
import type { Clock } from '../../domain/clock.ts'
import { asError, type FailureLog } from '../../observability/failure-log.ts'
import type { KeyServiceClient } from '../tiers/key-service/key-service-client.ts'
import { isNotOffered } from '../tiers/key-service/key-service-responses.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
/** Keys with unreported uses; beyond that, the oldest is dropped. */
const MAX_KEYS = 100_000
/** Serializing a batch blocks the event loop: 1 ms for this many keys. */
const MAX_BATCH = 500
const MAX_RESPONSE_BYTES = 16 * 1024
/** A stopping process waits at most this long for its last report. */
const MAX_LAST_REPORT_MS = 2_000

export interface UsageReporterParts {
  readonly client: Pick<KeyServiceClient, 'request'>
  readonly clock: Clock
  readonly failures: FailureLog
  readonly periodMs: number
  /** For one call. */
  readonly timeoutMs: number
  readonly maxKeys?: number
  /** From 0 to 1: when the first report is sent, so that gateways do not report at the same moment. */
  readonly random?: () => number
}

/**
 * Reports to the key service when keys were last used, to the minute. After a failure, the next report repeats the uses; a
 * killed process loses the uses since its last report.
 */
export class UsageReporter {
  readonly #parts: UsageReporterParts
  /** By key id, the minute of the last use, in minutes since the epoch. */
  readonly #noted: LRUCache<string, number>
  #restUntilMs = Number.NEGATIVE_INFINITY
  #timer: NodeJS.Timeout | undefined
  #report: Promise<void> | null = null
  #lastDeadline: AbortSignal | null = null

  constructor(parts: UsageReporterParts) {
    this.#parts = parts
    this.#noted = new LRUCache({ max: parts.maxKeys ?? MAX_KEYS })
  }

  start(): void {
    const { periodMs, random = Math.random } = this.#parts
    const tick = () => {
      this.#timer = setTimeout(tick, periodMs).unref()
      void this.report()
    }
    this.#timer ??= setTimeout(tick, periodMs * random()).unref()
  }

  /** Records a use of the key, for the next report. */
  used(keyId: string): void {
    const minute = Math.floor(this.#parts.clock.wallMs() / MINUTE_MS)
    if (this.#noted.peek(keyId) !== minute) this.#noted.set(keyId, minute)
  }

  /** Sends all recorded uses. Reports never overlap or reject. */
  report(): Promise<void> {
    this.#report ??= this.#send().finally(() => {
      this.#report = null
    })
    return this.#report
  }

  /** Sends the last report, within one deadline. */
  async stop(): Promise<void> {
    clearTimeout(this.#timer)
    this.#lastDeadline = AbortSignal.timeout(Math.min(MAX_LAST_REPORT_MS, this.#parts.timeoutMs))
    await this.#report
    await this.report()
  }

  /** Uses that cannot be sent stay recorded. */
  async #send(): Promise<void> {
    const { clock, failures } = this.#parts
    try {
      if (clock.monotonicMs() < this.#restUntilMs || !(await this.#sendAll())) this.#noted.clear()
      else failures.succeeded()
    } catch (error) {
      failures.failed(asError(error))
    }
  }

  /** @returns false if the key service accepts no reports */
  async #sendAll(): Promise<boolean> {
    const { timeoutMs } = this.#parts
    for (let batches = Math.ceil(this.#noted.size / MAX_BATCH); batches > 0; batches--) {
      const batch = this.#oldest(MAX_BATCH)
      const isAccepted = await this.#sendBatch(batch, this.#lastDeadline ?? AbortSignal.timeout(timeoutMs))
      if (!isAccepted) return false
      this.#forget(batch)
    }
    return true
  }

  /** @returns false if the key service accepts no reports: the call is optional */
  async #sendBatch(batch: readonly Use[], deadline: AbortSignal): Promise<boolean> {
    const used = Object.fromEntries(batch.map(([keyId, minute]) => [keyId, minute * MINUTE_MS]))
    const request = { method: 'POST', path: '/usage', body: { used }, maxBytes: MAX_RESPONSE_BYTES } as const
    const response = await this.#parts.client.request(request, deadline)
    if (isNotOffered(response)) {
      this.#restUntilMs = this.#parts.clock.monotonicMs() + HOUR_MS
      return false
    }
    const { status } = response
    if (status < 200 || status > 299) throw new Error(`The key service responded with status ${status}`)
    return true
  }

  #oldest(count: number): Use[] {
    const uses: Use[] = []
    for (const keyId of this.#noted.rkeys()) {
      if (uses.length === count) break
      uses.push([keyId, this.#noted.peek(keyId) ?? 0])
    }
    return uses
  }

  /** A key that was used again in a later minute stays recorded. */
  #forget(uses: readonly Use[]): void {
    for (const [keyId, minute] of uses) {
      if (this.#noted.peek(keyId) === minute) this.#noted.delete(keyId)
    }
  }
}

/** Id of a key and the minute of its last use, since the epoch. */
type Use = [keyId: string, minute: number]
