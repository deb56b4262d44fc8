import { LRUCache } from 'lru-cache'
import { atMost } from '../../domain/bounded.ts'
import { type Clock, systemTimers, type Timers } from '../../domain/clock.ts'
import { parseJsonObject } from '../../domain/form/json.ts'
import { REVOCATION_TIMING } from '../../domain/revocation-timing.ts'
import { isCount } from '../../domain/wire.ts'
import { asError, type FailureLog } from '../../observability/failure-log.ts'
import { type KeyServiceClient, NOT_OFFERED_REST_MS, ReportCall } from '../tiers/key-service-client.ts'

const { confirmationGatherMs, presenceIntervalMs, disconnectedPresenceIntervalMs } = REVOCATION_TIMING
/** Pause after a failure. */
const RETRY_MS = 1_000
/** Unsent confirmations; beyond that, the oldest is dropped, and the console lists this gateway as silent. */
const MAX_WAITING = 10_000
/** Confirmations in one call: larger batches would block the event loops of both ends for milliseconds. */
const MAX_BATCH = 250
const MAX_RESPONSE_BYTES = 16 * 1024
/** Version of a new key. No gateway can hold an older one, so it needs no confirmation. */
const FIRST_VERSION = 1

/** `timed_out`: requests in flight were cut off at `drain.timeoutMs`. */
export type DrainOutcome = 'completed' | 'timed_out'

export interface ConfirmerParts {
  readonly client: Pick<KeyServiceClient, 'request'>
  readonly clock: Clock
  readonly timers?: Timers
  readonly failures: FailureLog
  /** This process, and its region if the settings name one. */
  readonly gateway: { readonly id: string; readonly name: string; readonly region?: string }
  /** For one call. */
  readonly timeoutMs: number
  readonly maxWaiting?: number
  /** Receives each response to an accepted report. */
  readonly onAccepted?: (response: ReportResponse) => void
}

/**
 * Confirms to the console which changes this gateway has applied, and reports whether it is connected. It is not on the
 * path of requests, and the revocation guarantee does not depend on it: the console shows the confirmations to operators.
 */
export class ChangeConfirmer {
  /** Settles once the console knows that this gateway is connected. */
  readonly introduced: Promise<void>
  /** Settles once the first report was answered, or has failed. */
  readonly attempted: Promise<void>
  readonly #parts: ConfirmerParts
  readonly #call = new ReportCall()
  /** By digest, the applied version, in the order in which they were applied. */
  readonly #waiting: LRUCache<string, number>
  readonly #maxWaiting: number
  #isConnected = false
  #presenceDueMs = Number.NEGATIVE_INFINITY
  #restUntilMs = Number.NEGATIVE_INFINITY
  readonly #timers: Timers
  #cancelGather: (() => void) | null = null
  #sending: Promise<void> | null = null
  #stopped = false
  readonly #introduce: () => void
  readonly #noteAttempt: () => void

  constructor(parts: ConfirmerParts) {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.introduced = promise
    this.#introduce = resolve
    const attempt = Promise.withResolvers<void>()
    this.attempted = attempt.promise
    this.#noteAttempt = attempt.resolve
    this.#parts = parts
    this.#timers = parts.timers ?? systemTimers
    this.#maxWaiting = parts.maxWaiting ?? MAX_WAITING
    this.#waiting = new LRUCache(atMost(this.#maxWaiting))
  }

  /** Records an applied change: from now on, no request is decided by an older version. */
  applied(digest: string, version: number): void {
    if (version <= FIRST_VERSION || this.#stopped) return
    this.#waiting.set(digest, version)
    this.#cancelGather ??= this.#timers.after(confirmationGatherMs, () => {
      this.#cancelGather = null
      this.#send()
    })
  }

  /** Sends a report when one is due. Must be called a few times a second. */
  watch(isConnected: boolean): void {
    const hasFlipped = isConnected !== this.#isConnected
    this.#isConnected = isConnected
    const isDue = this.#parts.clock.monotonicMs() >= this.#presenceDueMs
    if (hasFlipped || isDue || this.#waiting.size > 0) this.#send()
  }

  /** Signs off, so that the console does not wait for this gateway, and counts its drain. */
  async stop(deadline: AbortSignal, drain?: DrainOutcome): Promise<void> {
    this.#stopped = true
    this.#cancelGather?.()
    await this.#sending
    if (this.#isResting()) return
    await this.#post({ isConnected: false, confirmed: [], isLeaving: true, drain }, deadline).catch(() => {
      // The console forgets a gateway that could not sign off after a minute.
    })
  }

  /** True for a while after a failure, and if the key service accepts no confirmations. */
  #isResting(): boolean {
    return this.#parts.clock.monotonicMs() < this.#restUntilMs
  }

  #send(): void {
    if (this.#stopped || this.#isResting()) return
    this.#sending ??= this.#sendAll().finally(() => {
      this.#noteAttempt()
      this.#sending = null
    })
  }

  async #sendAll(): Promise<void> {
    const { clock, failures } = this.#parts
    let rejection: RejectedReport | null = null
    try {
      do {
        const report = { isConnected: this.#isConnected, confirmed: this.#take(), isLeaving: false }
        const outcome = await this.#sendReport(report)
        this.#presenceDueMs =
          clock.monotonicMs() + (report.isConnected ? presenceIntervalMs : disconnectedPresenceIntervalMs)
        if (outcome === 'not_offered') this.#restUntilMs = clock.monotonicMs() + NOT_OFFERED_REST_MS
        else if (outcome !== 'accepted') rejection = outcome
        else if (report.isConnected) this.#introduce()
      } while (this.#waiting.size > 0 && !this.#isResting() && !this.#stopped)
      if (rejection === null) failures.succeeded()
      else failures.failed(rejection)
    } catch (error) {
      this.#restUntilMs = clock.monotonicMs() + RETRY_MS
      failures.failed(asError(error))
    }
  }

  /** Drops a report that the console rejects: it would reject it again, and delay all later ones. */
  async #sendReport(report: Report): Promise<ReportOutcome> {
    const { timeoutMs } = this.#parts
    const deadline = new AbortController()
    const cancel = this.#timers.after(timeoutMs, () =>
      deadline.abort(new Error(`The key service did not respond within ${timeoutMs} ms`)),
    )
    try {
      return await this.#post(report, deadline.signal)
    } catch (error) {
      if (error instanceof RejectedReport) return error
      this.#keep(report.confirmed)
      throw error
    } finally {
      cancel()
    }
  }

  /** @throws `RejectedReport` if the same report would be rejected again, another error if it may be repeated */
  async #post(report: Report, deadline: AbortSignal): Promise<'accepted' | 'not_offered'> {
    const { isConnected, isLeaving, confirmed, drain } = report
    // The field names of the key service contract, which key services of other makers implement.
    const body = {
      gateway: this.#parts.gateway,
      connected: isConnected,
      leaving: isLeaving,
      confirmed,
      drain,
    }
    const request = { method: 'POST', path: '/confirmations', body, maxBytes: MAX_RESPONSE_BYTES } as const
    const response = await this.#parts.client.request(request, deadline)
    const outcome = this.#call.outcomeOf(response)
    if (outcome === 'rejected') {
      const message = `The key service responded with status ${response.status}`
      throw new RejectedReport(`${message}; ${confirmed.length} confirmations dropped`)
    }
    if (outcome === 'accepted') this.#parts.onAccepted?.(readReportResponse(response.text))
    return outcome
  }

  /** Removes the oldest confirmations. A later version of the same key that is applied during the call waits. */
  #take(): Applied[] {
    const taken: Applied[] = []
    for (const digest of this.#waiting.rkeys()) {
      if (taken.length === MAX_BATCH) break
      taken.push({ digest, version: this.#waiting.peek(digest) ?? FIRST_VERSION })
    }
    for (const { digest } of taken) this.#waiting.delete(digest)
    return taken
  }

  /** Puts unsent confirmations back, as far as there is room beside newer ones. */
  #keep(unsent: readonly Applied[]): void {
    for (const { digest, version } of unsent) {
      if (this.#waiting.size === this.#maxWaiting) return
      if (!this.#waiting.has(digest)) this.#waiting.set(digest, version)
    }
  }
}

/** The key service will never accept this report. */
class RejectedReport extends Error {}

type ReportOutcome = 'accepted' | 'not_offered' | RejectedReport

interface Applied {
  readonly digest: string
  readonly version: number
}

interface Report {
  readonly isConnected: boolean
  readonly confirmed: readonly Applied[]
  readonly isLeaving: boolean
  readonly drain?: DrainOutcome | undefined
}

/** What the key service says to a report. Each field is optional: other key services may leave it out. */
interface ReportResponse {
  /** Fingerprints of its signing secrets; the first signs. Empty if it does not say. */
  readonly fingerprints: readonly string[]
  /** Number of gateways that reported within the last minute; null if it does not say. */
  readonly gateways: number | null
  /** Its wall clock, in milliseconds since the epoch; null if it does not say. */
  readonly atMs: number | null
  /** Names of its regions. Empty if it does not say. */
  readonly regions: readonly string[]
}

/** @param text the body, which may be missing or that of another server */
export function readReportResponse(text: string): ReportResponse {
  const { signingSecrets, gateways, at, regions }: Readonly<Record<string, unknown>> =
    parseJsonObject(text) ?? {}
  return {
    fingerprints: textsIn(signingSecrets),
    gateways: typeof gateways === 'number' ? gateways : null,
    atMs: isCount(at) ? at : null,
    regions: textsIn(regions),
  }
}

function textsIn(list: unknown): string[] {
  return Array.isArray(list) ? list.filter(text => typeof text === 'string') : []
}
