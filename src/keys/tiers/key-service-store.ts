import { type Clock, systemClock, systemTimers, type TurnTimers } from '../../domain/clock.ts'
import { isJsonObject, parseJsonObject } from '../../domain/form/json.ts'
import { decodeRecord } from '../../domain/wire.ts'
import { asError } from '../../observability/failure-log.ts'
import {
  isNotOffered,
  KEY_SERVICE_CONNECTIONS,
  type KeyServiceClient,
  type KeyServiceResponse,
  NOT_OFFERED_REST_MS,
  OversizedResponse,
} from './key-service-client.ts'
import type { KeyTier, TierResult } from './key-store.ts'

/** Lookups in one call to the key service. */
const MAX_BATCH = 256
/** Concurrent calls. Further lookups wait: the slower the key service, the larger the batches. */
const MAX_CALLS = 4
const MAX_RECORD_BYTES = 16 * 1024
/** Also for a small batch: one oversized record must not fail the others. */
const MAX_BATCH_BYTES = MAX_BATCH * MAX_RECORD_BYTES

/** A lookup that waits or is in flight. */
interface PendingLookup {
  readonly digest: string
  readonly deadlineMs: number
  /** Only the first call counts. */
  readonly settle: (result: TierResult) => void
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
  readonly #timers: TurnTimers
  #waiting = new Set<PendingLookup>()
  #calls = 0
  #scheduled = false
  /** Until then each key is looked up by a call of its own: the key service does not offer batches. */
  #singlyUntilMs = Number.NEGATIVE_INFINITY

  constructor(
    client: Pick<KeyServiceClient, 'request'>,
    settings: { timeoutMs: number; clock?: Clock; timers?: TurnTimers },
  ) {
    this.#client = client
    this.#timeoutMs = settings.timeoutMs
    this.#clock = settings.clock ?? systemClock
    this.#timers = settings.timers ?? systemTimers
  }

  /** The deadline, `timeoutMs`, includes the time that the lookup waits for a call. */
  get(digest: string): Promise<TierResult> {
    const { promise, resolve } = Promise.withResolvers<TierResult>()
    const deadlineMs = this.#clock.monotonicMs() + this.#timeoutMs
    const lookup: PendingLookup = {
      digest,
      deadlineMs,
      settle: result => {
        cancel()
        resolve(result)
      },
    }
    const cancel = this.#timers.after(this.#timeoutMs, () => this.#timeOut(lookup))
    this.#waiting.add(lookup)
    this.#schedule()
    return promise
  }

  #timeOut(lookup: PendingLookup): void {
    this.#waiting.delete(lookup)
    lookup.settle({ kind: 'failed', error: this.#timeoutError(), why: 'unreachable' })
  }

  #timeoutError(): Error {
    return new Error(`The key service did not respond within ${this.#timeoutMs} ms`)
  }

  /** Sends after all requests of this turn of the event loop were read, so that their lookups form a batch. */
  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    this.#timers.nextTurn(() => {
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

  /** Removes the oldest waiting lookups. */
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
    // The deadline of the youngest lookup: older ones have timers of their own.
    const remainingMs = (more.at(-1) ?? first).deadlineMs - this.#clock.monotonicMs()
    const deadline = new AbortController()
    // The timer of `AbortSignal.timeout` would outlive the response.
    const cancel = this.#timers.after(Math.max(1, Math.ceil(remainingMs)), () =>
      deadline.abort(this.#timeoutError()),
    )
    try {
      if (more.length === 0) await this.#fetchOne(first, deadline.signal)
      else await this.#fetchMany(lookups, deadline.signal)
    } catch (error) {
      const why = error instanceof OversizedResponse ? 'unusable' : 'unreachable'
      const result: TierResult = { kind: 'failed', error: asError(error), why }
      for (const lookup of lookups) lookup.settle(result)
    } finally {
      cancel()
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
    const response = await this.#client.request(request, signal)
    if (isNotOffered(response)) return this.#retrySingly(lookups)
    const resultFor = readBatch(response)
    for (const { digest, settle } of lookups) settle(resultFor(digest))
  }

  /** Puts the lookups that have not timed out before those that wait. */
  #retrySingly(lookups: readonly PendingLookup[]): void {
    const nowMs = this.#clock.monotonicMs()
    this.#singlyUntilMs = nowMs + NOT_OFFERED_REST_MS
    this.#waiting = new Set([...lookups.filter(({ deadlineMs }) => deadlineMs > nowMs), ...this.#waiting])
  }
}

/** Reads the response to a single lookup. Only the code `not_found` means that there is no such key. */
export function readSingle({ status, text }: KeyServiceResponse, digest: string): TierResult {
  // The response of another server, such as a proxy's error page, is no object.
  if (status === 404 && parseJsonObject(text)?.['code'] === 'not_found') return { kind: 'absent' }
  return status === 200 ? readRecord(text, digest) : failed(`The key service responded with status ${status}`)
}

/**
 * Reads the response to a batch of lookups.
 * @returns a function from digest to result; a missing or malformed record fails only its own lookup
 */
export function readBatch({ status, text }: KeyServiceResponse): (digest: string) => TierResult {
  if (status !== 200) return () => failed(`The key service responded with status ${status}`)
  const records = parseJsonObject(text)?.['records']
  if (!isJsonObject(records))
    return () => failed('The response of the key service to a batch contains no records')
  return digest => {
    if (!Object.hasOwn(records, digest))
      return failed('The response of the key service to a batch omits this key')
    const record = records[digest]
    return record === null ? { kind: 'absent' } : readRecord(JSON.stringify(record), digest)
  }
}

/** The key service did respond, so lookups of other keys need not fail. */
function failed(message: string): TierResult {
  return { kind: 'failed', error: new Error(message), why: 'unusable' }
}

function readRecord(text: string, digest: string): TierResult {
  const decoded = decodeRecord(text, digest, null)
  return decoded.ok
    ? { kind: 'found', grant: decoded.grant }
    : failed(`The key service returned an invalid record: ${decoded.why}`)
}
