import { LRUCache } from 'lru-cache'
import type { Clock } from '../../domain/clock.ts'
import { asError, type TroubleLog } from '../../observability/trouble-log.ts'
import { isNotOffered } from '../tiers/key-service/key-service-answers.ts'
import type { KeyServiceClient } from '../tiers/key-service/key-service-client.ts'

/** A burst of changes is confirmed in a few calls. */
const GATHER_MS = 20
/** So often the console is told that this gateway lives, also where nothing changes. */
const PRESENCE_MS = 5_000
/** While deaf: what counts is that it was so after a change, and somebody may be waiting to know. */
const DEAF_PRESENCE_MS = 500
/** After a failure; what is confirmed late is of use to nobody, so there is no hurry. */
const RETRY_MS = 1_000
const HOUR_MS = 3_600_000
/** Of more than these the one applied first is forgotten: the console then names this gateway as silent. */
const MAX_WAITING = 10_000
/** Longer ones keep the event loops of both ends for milliseconds, under a flood of changes. */
const MAX_BATCH = 250
const MAX_ANSWER_BYTES = 16 * 1024
/** Nobody held a key before it was issued: there is nothing to confirm. */
const FIRST_VERSION = 1
/** Client errors that refuse the caller or the moment (RFC 9110, section 15.5), and not what was sent. */
const REFUSED_FOR_NOW = new Set([401, 403, 408, 425, 429])

export interface ConfirmerParts {
  readonly client: Pick<KeyServiceClient, 'ask'>
  readonly clock: Clock
  readonly trouble: TroubleLog
  /** This process, among all there are. */
  readonly gateway: { readonly id: string; readonly name: string }
  /** For one call. */
  readonly timeoutMs: number
  readonly maxWaiting?: number
}

/**
 * Tells the console which changes this gateway has applied, and whether it hears at all, off the way of any request. The
 * promise on revocation doesn't rest on it: it is what the console shows to whoever revoked a key.
 */
export class ChangeConfirmer {
  /** Settled once the console knows of this gateway that it hears changes. */
  readonly introduced: Promise<void>
  readonly #parts: ConfirmerParts
  /** Versions, in the order in which they were applied. */
  readonly #waiting: LRUCache<string, number>
  readonly #maxWaiting: number
  #hearing = false
  #presenceDueMs = Number.NEGATIVE_INFINITY
  #restUntilMs = Number.NEGATIVE_INFINITY
  #gather: NodeJS.Timeout | undefined
  #telling: Promise<void> | null = null
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

  /** A change was applied: from now on no request is answered with what was true before it. */
  applied(digest: string, version: number): void {
    if (version <= FIRST_VERSION || this.#stopped) return
    this.#waiting.set(digest, version)
    this.#gather ??= setTimeout(() => {
      this.#gather = undefined
      this.#tell()
    }, GATHER_MS).unref()
  }

  /** To be called a few times a second. @param hearing whether changes are heard at this moment */
  watch(hearing: boolean): void {
    const flipped = hearing !== this.#hearing
    this.#hearing = hearing
    const isDue = this.#parts.clock.monotonicMs() >= this.#presenceDueMs
    if (flipped || isDue || this.#waiting.size > 0) this.#tell()
  }

  /** Takes leave, so that nobody waits for this gateway. */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#gather)
    await this.#telling
    if (this.#isResting()) return
    await this.#post({ hearing: false, confirmed: [], leaving: true }, deadline).catch(() => {
      // Whoever could not take leave is forgotten after a minute.
    })
  }

  /** After a failure, and where nobody wants to know. */
  #isResting(): boolean {
    return this.#parts.clock.monotonicMs() < this.#restUntilMs
  }

  #tell(): void {
    if (this.#stopped || this.#isResting()) return
    this.#telling ??= this.#tellAll().finally(() => {
      this.#telling = null
    })
  }

  async #tellAll(): Promise<void> {
    const { clock, trouble, timeoutMs } = this.#parts
    let refusal: RefusedReport | null = null
    try {
      do {
        const report = { hearing: this.#hearing, confirmed: this.#take(), leaving: false }
        const outcome = await this.#postOrKeep(report, AbortSignal.timeout(timeoutMs))
        this.#presenceDueMs = clock.monotonicMs() + (report.hearing ? PRESENCE_MS : DEAF_PRESENCE_MS)
        if (outcome === 'not_offered') this.#restUntilMs = clock.monotonicMs() + HOUR_MS
        else if (outcome !== 'taken') refusal = outcome
        else if (report.hearing) this.#introduce()
      } while (this.#waiting.size > 0 && !this.#isResting() && !this.#stopped)
      if (refusal === null) trouble.works()
      else trouble.failed(refusal)
    } catch (error) {
      this.#restUntilMs = clock.monotonicMs() + RETRY_MS
      trouble.failed(asError(error))
    }
  }

  /** What the console refuses is dropped: it would refuse it again, and keep all that comes after it from being sent. */
  async #postOrKeep(report: Report, deadline: AbortSignal): Promise<Outcome> {
    try {
      return await this.#post(report, deadline)
    } catch (error) {
      if (error instanceof RefusedReport) return error
      this.#keep(report.confirmed)
      throw error
    }
  }

  /** @throws `RefusedReport` where sending the same again is in vain, another error where it is not */
  async #post(report: Report, deadline: AbortSignal): Promise<'taken' | 'not_offered'> {
    const body = { gateway: this.#parts.gateway, ...report }
    const request = { method: 'POST', path: '/confirmations', body, maxBytes: MAX_ANSWER_BYTES } as const
    const reply = await this.#parts.client.ask(request, deadline)
    const { status } = reply
    // An own key service need not take confirmations.
    if (isNotOffered(reply)) return 'not_offered'
    if (status >= 200 && status <= 299) return 'taken'
    if (status < 400 || status > 499 || REFUSED_FOR_NOW.has(status)) {
      throw new Error(`The key service answered ${status}`)
    }
    throw new RefusedReport(
      `The key service answered ${status}; ${report.confirmed.length} confirmations dropped`,
    )
  }

  /** What was applied first. A later version that is applied while the call is under way waits anew. */
  #take(): Applied[] {
    const taken: Applied[] = []
    for (const digest of this.#waiting.rkeys()) {
      if (taken.length === MAX_BATCH) break
      taken.push({ digest, version: this.#waiting.peek(digest) ?? FIRST_VERSION })
    }
    for (const { digest } of taken) this.#waiting.delete(digest)
    return taken
  }

  /** What was not told waits again, as far as there is room beside what was applied since. */
  #keep(untold: readonly Applied[]): void {
    for (const { digest, version } of untold) {
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
  readonly hearing: boolean
  readonly confirmed: readonly Applied[]
  readonly leaving: boolean
}
