import { LRUCache } from 'lru-cache'
import type { Clock } from '../../domain/clock.ts'
import { asError, type FailureLog } from '../../observability/failure-log.ts'
import { isNotOffered } from '../tiers/key-service/key-service-answers.ts'
import type { KeyServiceClient } from '../tiers/key-service/key-service-client.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
/** Keys that are noted; beyond that, the one noted longest ago is forgotten. */
const MAX_KEYS = 100_000
/** Serializing a batch blocks the event loop: 1 ms for this many keys. */
const MAX_BATCH = 500
const MAX_ANSWER_BYTES = 16 * 1024
/** A process that stops waits no longer than this for its last report. */
const MAX_LAST_REPORT_MS = 2_000

export interface UsageReporterParts {
  readonly client: Pick<KeyServiceClient, 'request'>
  readonly clock: Clock
  readonly failures: FailureLog
  readonly periodMs: number
  /** For one call. */
  readonly timeoutMs: number
  readonly maxKeys?: number
  /** From 0 to 1: when the first report goes, so that a fleet does not report as one. */
  readonly random?: () => number
}

/**
 * Reports to the key service when keys were last used, to the minute. What fails is sent with the next report; a process
 * that is killed loses at most what it noted since the last one.
 */
export class UsageReporter {
  readonly #parts: UsageReporterParts
  /** Of each key the last minute of use, counted from the epoch. */
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

  /** Called for each request; it only notes. */
  used(keyId: string): void {
    const minute = Math.floor(this.#parts.clock.wallMs() / MINUTE_MS)
    if (this.#noted.peek(keyId) !== minute) this.#noted.set(keyId, minute)
  }

  /** Sends all that was noted. Reports never overlap or reject. */
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

  /** What cannot be sent stays noted. */
  async #send(): Promise<void> {
    const { clock, failures } = this.#parts
    try {
      if (clock.monotonicMs() < this.#restUntilMs || !(await this.#sendAll())) this.#noted.clear()
      else failures.succeeded()
    } catch (error) {
      failures.failed(asError(error))
    }
  }

  /** @returns false if the key service takes no reports */
  async #sendAll(): Promise<boolean> {
    const { timeoutMs } = this.#parts
    for (let batches = Math.ceil(this.#noted.size / MAX_BATCH); batches > 0; batches--) {
      const batch = this.#oldest(MAX_BATCH)
      const isTaken = await this.#sendBatch(batch, this.#lastDeadline ?? AbortSignal.timeout(timeoutMs))
      if (!isTaken) return false
      this.#forget(batch)
    }
    return true
  }

  /** @returns false if the key service takes no reports, which is optional for an own one */
  async #sendBatch(batch: readonly Use[], deadline: AbortSignal): Promise<boolean> {
    const used = Object.fromEntries(batch.map(([keyId, minute]) => [keyId, minute * MINUTE_MS]))
    const request = { method: 'POST', path: '/usage', body: { used }, maxBytes: MAX_ANSWER_BYTES } as const
    const reply = await this.#parts.client.request(request, deadline)
    if (isNotOffered(reply)) {
      this.#restUntilMs = this.#parts.clock.monotonicMs() + HOUR_MS
      return false
    }
    if (reply.status < 200 || reply.status > 299) throw new Error(`The key service answered ${reply.status}`)
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

  /** A key that was used in a later minute since stays noted. */
  #forget(uses: readonly Use[]): void {
    for (const [keyId, minute] of uses) {
      if (this.#noted.peek(keyId) === minute) this.#noted.delete(keyId)
    }
  }
}

/** Id of a key and the minute of its last use. */
type Use = [keyId: string, minute: number]
