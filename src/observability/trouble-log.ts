import type { Clock } from '../domain/clock.ts'

/** As much of a pino logger as is used here. */
export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

/** Something that flaps with each request must not write a line with each request. */
const QUIET_MS = 5_000

/** Logs when trouble begins and when it ends, not each failure: metrics count those. */
export class TroubleLog {
  readonly #log: Log
  readonly #clock: Clock
  readonly #part: string
  #inTrouble = false
  #lastLoggedMs = Number.NEGATIVE_INFINITY

  /** @param part what is in trouble, for the reader of the log: `key service lookup`, `redis reader` */
  constructor(part: string, log: Log, clock: Clock) {
    this.#part = part
    this.#log = log
    this.#clock = clock
  }

  /** Only text and code of the error are written: ioredis attaches the password of a refused AUTH to its errors. */
  failed(error: Error & { code?: unknown }): void {
    const nowMs = this.#clock.monotonicMs()
    if (this.#inTrouble || nowMs - this.#lastLoggedMs < QUIET_MS) return
    this.#inTrouble = true
    this.#lastLoggedMs = nowMs
    this.#log.warn({ part: this.#part, reason: error.message, code: error.code }, `${this.#part} fails`)
  }

  works(): void {
    if (!this.#inTrouble) return
    this.#inTrouble = false
    this.#log.info({ part: this.#part }, `${this.#part} works again`)
  }
}

export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}
