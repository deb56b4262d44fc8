import type { Clock } from '../domain/clock.ts'

/** As much of a pino logger as is used here. */
export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

/** Something that flaps with each request must not write a line with each request. */
const QUIET_MS = 5_000

/** Tells of trouble when it begins and when it is over, not of each failure: those are counted. */
export class TroubleLog {
  readonly #log: Log
  readonly #clock: Clock
  readonly #part: string
  #inTrouble = false
  #lastToldMs = Number.NEGATIVE_INFINITY

  /** @param part what is in trouble, for the reader of the log: `key service look-up`, `redis reader` */
  constructor(part: string, log: Log, clock: Clock) {
    this.#part = part
    this.#log = log
    this.#clock = clock
  }

  /** Only text and code of the error are written: ioredis hangs the password of a refused AUTH on its errors. */
  failed(error: Error & { code?: unknown }): void {
    const nowMs = this.#clock.monotonicMs()
    if (this.#inTrouble || nowMs - this.#lastToldMs < QUIET_MS) return
    this.#inTrouble = true
    this.#lastToldMs = nowMs
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
