import { LRUCache } from 'lru-cache'
import type { Clock } from '../../domain/clock.ts'
import { REVOCATION_TIMING } from '../../domain/revocation-timing.ts'
import { asError, type FailureLog } from '../../observability/failure-log.ts'
import { isNotOffered } from '../tiers/key-service/key-service-answers.ts'
import type { KeyServiceClient } from '../tiers/key-service/key-service-client.ts'

const { confirmationGatherMs, presenceIntervalMs, disconnectedPresenceIntervalMs } = REVOCATION_TIMING
/** After a failure. There is no hurry: a late confirmation is of no use. */
const RETRY_MS = 1_000
const HOUR_MS = 3_600_000
/** Beyond this the oldest is forgotten, and the console lists this gateway as silent. */
const MAX_WAITING = 10_000
/** Larger ones block the event loops of both ends for milliseconds under a flood of changes. */
const MAX_BATCH = 250
const MAX_ANSWER_BYTES = 16 * 1024
/** No gateway held a key before it was issued: there is nothing to confirm. */
const FIRST_VERSION = 1
/** Client errors that are about the caller or the moment (RFC 9110, section 15.5) and not about the report. */
const REFUSED_FOR_NOW = new Set([401, 403, 408, 425, 429])

export interface ConfirmerParts {
  readonly client: Pick<KeyServiceClient, 'request'>
  readonly clock: Clock
  readonly failures: FailureLog
  /** This process. */
  readonly gateway: { readonly id: string; readonly name: string }
  /** For one call. */
  readonly timeoutMs: number
  readonly maxWaiting?: number
}

/**
 * Confirms to the console which changes this gateway has applied, and reports whether it is connected, not on the path of
 * any request. The guarantee on revocation does not rest on it: the console shows it to the person who revoked a key.
 */
export class ChangeConfirmer {
  /** Settled once the console knows that this gateway is connected. */
  readonly introduced: Promise<void>
  readonly #parts: ConfirmerParts
  /** Versions, in the order in which they were applied. */
  readonly #waiting: LRUCache<string, number>
  readonly #maxWaiting: number
  #isConnected = false
  #presenceDueMs = Number.NEGATIVE_INFINITY
  #restUntilMs = Number.NEGATIVE_INFINITY
  #gather: NodeJS.Timeout | undefined
  #sending: Promise<void> | null = null
  #stopped = false
  readonly #introduce: () => void

  constructor(parts: ConfirmerParts) {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.introduced = promise
    this.#introduce = resolve
    this.#parts = parts
    this.#maxWaiting = parts.maxWaiting ?? MAX_WAITING
    this.#waiting = new LRUCache({ max: this.#maxWaiting })
  }

  /** From now on no request is answered with what was true before this change. */
  applied(digest: string, version: number): void {
    if (version <= FIRST_VERSION || this.#stopped) return
    this.#waiting.set(digest, version)
    this.#gather ??= setTimeout(() => {
      this.#gather = undefined
      this.#send()
    }, confirmationGatherMs).unref()
  }

  /** Must be called a few times a second. */
  watch(isConnected: boolean): void {
    const hasFlipped = isConnected !== this.#isConnected
    this.#isConnected = isConnected
    const isDue = this.#parts.clock.monotonicMs() >= this.#presenceDueMs
    if (hasFlipped || isDue || this.#waiting.size > 0) this.#send()
  }

  /** Signs off, so that the console does not wait for this gateway. */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#gather)
    await this.#sending
    if (this.#isResting()) return
    await this.#post({ isConnected: false, confirmed: [], isLeaving: true }, deadline).catch(() => {
      // The console forgets a gateway that could not sign off after a minute.
    })
  }

  /** After a failure, and if the key service takes no confirmations. */
  #isResting(): boolean {
    return this.#parts.clock.monotonicMs() < this.#restUntilMs
  }

  #send(): void {
    if (this.#stopped || this.#isResting()) return
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = null
    })
  }

  async #sendAll(): Promise<void> {
    const { clock, failures, timeoutMs } = this.#parts
    let refusal: RefusedReport | null = null
    try {
      do {
        const report = { isConnected: this.#isConnected, confirmed: this.#take(), isLeaving: false }
        const outcome = await this.#postOrKeep(report, AbortSignal.timeout(timeoutMs))
        this.#presenceDueMs =
          clock.monotonicMs() + (report.isConnected ? presenceIntervalMs : disconnectedPresenceIntervalMs)
        if (outcome === 'not_offered') this.#restUntilMs = clock.monotonicMs() + HOUR_MS
        else if (outcome !== 'taken') refusal = outcome
        else if (report.isConnected) this.#introduce()
      } while (this.#waiting.size > 0 && !this.#isResting() && !this.#stopped)
      if (refusal === null) failures.succeeded()
      else failures.failed(refusal)
    } catch (error) {
      this.#restUntilMs = clock.monotonicMs() + RETRY_MS
      failures.failed(asError(error))
    }
  }

  /** What the console rejects is dropped: it would reject it again, and hold up all that comes after it. */
  async #postOrKeep(report: Report, deadline: AbortSignal): Promise<Outcome> {
    try {
      return await this.#post(report, deadline)
    } catch (error) {
      if (error instanceof RefusedReport) return error
      this.#keep(report.confirmed)
      throw error
    }
  }

  /** @throws `RefusedReport` if the same report would be refused again, another error if it may be repeated */
  async #post(report: Report, deadline: AbortSignal): Promise<'taken' | 'not_offered'> {
    const { isConnected, isLeaving, confirmed } = report
    // The names in the key service's contract, which key services of others implement.
    const body = { gateway: this.#parts.gateway, hearing: isConnected, leaving: isLeaving, confirmed }
    const request = { method: 'POST', path: '/confirmations', body, maxBytes: MAX_ANSWER_BYTES } as const
    const reply = await this.#parts.client.request(request, deadline)
    const { status } = reply
    // Optional for an own key service.
    if (isNotOffered(reply)) return 'not_offered'
    if (status >= 200 && status <= 299) return 'taken'
    if (status < 400 || status > 499 || REFUSED_FOR_NOW.has(status)) {
      throw new Error(`The key service answered ${status}`)
    }
    throw new RefusedReport(`The key service answered ${status}; ${confirmed.length} confirmations dropped`)
  }

  /** The oldest. A later version that is applied during the call waits anew. */
  #take(): Applied[] {
    const taken: Applied[] = []
    for (const digest of this.#waiting.rkeys()) {
      if (taken.length === MAX_BATCH) break
      taken.push({ digest, version: this.#waiting.peek(digest) ?? FIRST_VERSION })
    }
    for (const { digest } of taken) this.#waiting.delete(digest)
    return taken
  }

  /** What was not sent waits again, as far as there is room beside what was applied since. */
  #keep(unsent: readonly Applied[]): void {
    for (const { digest, version } of unsent) {
      if (this.#waiting.size === this.#maxWaiting) return
      if (!this.#waiting.has(digest)) this.#waiting.set(digest, version)
    }
  }
}

/** The key service will never take this report. */
class RefusedReport extends Error {}

type Outcome = 'taken' | 'not_offered' | RefusedReport

interface Applied {
  readonly digest: string
  readonly version: number
}

interface Report {
  readonly isConnected: boolean
  readonly confirmed: readonly Applied[]
  readonly isLeaving: boolean
}
