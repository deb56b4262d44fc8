import { type Clock, systemClock } from '../../../domain/clock.ts'
import { asError } from '../../../observability/failure-log.ts'
import type { KeyTier, TierAnswer } from '../../key-store.ts'
import { isNotOffered, readBatch, readSingle } from './key-service-answers.ts'
import { KEY_SERVICE_CONNECTIONS, type KeyServiceClient, OversizedAnswer } from './key-service-client.ts'

/** Lookups in one call. */
const MAX_BATCH = 256
/** Calls at a time. Lookups gather meanwhile: the slower the key service, the larger the batches. */
const MAX_CALLS = 4
/** A key service without the call for many lookups gets one request for each key, for this long. */
const SINGLY_MS = 300_000
const MAX_RECORD_BYTES = 16 * 1024
/** Also for a small batch: one oversized record must not fail the others. */
const MAX_BATCH_BYTES = MAX_BATCH * MAX_RECORD_BYTES

/** A lookup that waits, or is in flight. */
interface PendingLookup {
  readonly digest: string
  readonly deadlineMs: number
  /** Only the first call counts. */
  readonly settle: (answer: TierAnswer) => void
}

/**
 * Lookups at the key service. A single one is sent at once; those that arrive while others are in flight are sent in
 * batches, so that a gateway that was disconnected verifies its keys with a few calls.
 */
export class KeyServiceStore implements KeyTier {
  readonly name = 'key_service'
  readonly #client: Pick<KeyServiceClient, 'request'>
  readonly #timeoutMs: number
  readonly #clock: Clock
  #waiting = new Set<PendingLookup>()
  #calls = 0
  #scheduled = false
  #singlyUntilMs = Number.NEGATIVE_INFINITY

  constructor(client: Pick<KeyServiceClient, 'request'>, settings: { timeoutMs: number; clock?: Clock }) {
    this.#client = client
    this.#timeoutMs = settings.timeoutMs
    this.#clock = settings.clock ?? systemClock
  }

  /** The deadline includes the time that the lookup waits. */
  get(digest: string): Promise<TierAnswer> {
    const { promise, resolve } = Promise.withResolvers<TierAnswer>()
    const deadlineMs = this.#clock.monotonicMs() + this.#timeoutMs
    const lookup: PendingLookup = {
      digest,
      deadlineMs,
      settle: answer => {
        clearTimeout(timer)
        resolve(answer)
      },
    }
    const timer = setTimeout(() => this.#timeOut(lookup), this.#timeoutMs)
    this.#waiting.add(lookup)
    this.#schedule()
    return promise
  }

  #timeOut(lookup: PendingLookup): void {
    this.#waiting.delete(lookup)
    lookup.settle({ kind: 'failed', error: this.#timeoutError(), why: 'unreachable' })
  }

  #timeoutError(): Error {
    return new Error(`The key service did not answer within ${this.#timeoutMs} ms`)
  }

  /** After all requests that have arrived by now, so that those that arrived together form a batch. */
  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      this.#send()
    })
  }

  #send(): void {
    const singly = this.#clock.monotonicMs() < this.#singlyUntilMs
    while (this.#waiting.size > 0 && this.#calls < (singly ? KEY_SERVICE_CONNECTIONS : MAX_CALLS)) {
      const lookups = this.#take(singly ? 1 : MAX_BATCH)
      this.#calls++
      void this.#fetch(lookups).finally(() => {
        this.#calls--
        this.#send()
      })
    }
  }

  /** The oldest ones. */
  #take(count: number): PendingLookup[] {
    const lookups: PendingLookup[] = []
    for (const lookup of this.#waiting) {
      if (lookups.length === count) break
      lookups.push(lookup)
      this.#waiting.delete(lookup)
    }
    return lookups
  }

  /** Never rejects. */
  async #fetch(lookups: readonly PendingLookup[]): Promise<void> {
    const [first, ...more] = lookups
    if (first === undefined) return
    // Of the youngest: the timers of older ones fire before.
    const remainingMs = (more.at(-1) ?? first).deadlineMs - this.#clock.monotonicMs()
    const deadline = new AbortController()
    // The timer of `AbortSignal.timeout` would outlive the answer.
    const timer = setTimeout(() => deadline.abort(this.#timeoutError()), Math.max(1, Math.ceil(remainingMs)))
    try {
      if (more.length === 0) await this.#fetchOne(first, deadline.signal)
      else await this.#fetchMany(lookups, deadline.signal)
    } catch (error) {
      const why = error instanceof OversizedAnswer ? 'unusable' : 'unreachable'
      const answer: TierAnswer = { kind: 'failed', error: asError(error), why }
      for (const lookup of lookups) lookup.settle(answer)
    } finally {
      clearTimeout(timer)
    }
  }

  async #fetchOne({ digest, settle }: PendingLookup, signal: AbortSignal): Promise<void> {
    const request = { method: 'GET', path: `/keys/${digest}`, maxBytes: MAX_RECORD_BYTES } as const
    settle(readSingle(await this.#client.request(request, signal), digest))
  }

  async #fetchMany(lookups: readonly PendingLookup[], signal: AbortSignal): Promise<void> {
    const digests = [...new Set(lookups.map(({ digest }) => digest))]
    const body = { digests }
    const request = { method: 'POST', path: '/lookups', body, maxBytes: MAX_BATCH_BYTES } as const
    const reply = await this.#client.request(request, signal)
    if (isNotOffered(reply)) return this.#retrySingly(lookups)
    const answerTo = readBatch(reply)
    for (const { digest, settle } of lookups) settle(answerTo(digest))
  }

  /** They have waited longest and go first, except those that have timed out. */
  #retrySingly(lookups: readonly PendingLookup[]): void {
    const nowMs = this.#clock.monotonicMs()
    this.#singlyUntilMs = nowMs + SINGLY_MS
    this.#waiting = new Set([...lookups.filter(({ deadlineMs }) => deadlineMs > nowMs), ...this.#waiting])
  }
}
