import type { Clock } from '../../domain/clock.ts'
import { REVOCATION_TIMING } from '../../domain/revocation-timing.ts'
import type { KeyRepository } from '../keys/rows/key-repository.ts'

/** Each gateway reports every few seconds, and during changes more often. */
const COUNT_FOR_MS = 1_000

/** Counts the gateways that reported within the last minute, at most once a second. */
export class LiveGateways {
  readonly #repository: Pick<KeyRepository, 'countGateways'>
  readonly #clock: Clock
  #count: Promise<number> | null = null
  #countedAtMs = Number.NEGATIVE_INFINITY

  constructor(repository: Pick<KeyRepository, 'countGateways'>, clock: Clock) {
    this.#repository = repository
    this.#clock = clock
  }

  count(): Promise<number> {
    const nowMs = this.#clock.monotonicMs()
    if (this.#count === null || nowMs - this.#countedAtMs >= COUNT_FOR_MS) {
      this.#countedAtMs = nowMs
      const sinceMs = this.#clock.wallMs() - REVOCATION_TIMING.gatewayExpiryMs
      this.#count = this.#repository.countGateways(sinceMs)
      this.#count.catch(() => {
        // The caller gets the error; the next call counts again.
        this.#count = null
      })
    }
    return this.#count
  }
}
