import type { Clock } from '../domain/clock.ts'

/** The part of a pino logger that is used here. */
export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** Minimum time between two warnings, so that an intermittent failure does not flood the log. */
const MIN_INTERVAL_MS = 5_000
/** A failure that lasts is logged again, so that the last minutes of a log name it. */
const REPEAT_MS = 60_000

/** What is known of a failure beyond its error. */
interface Explanation {
  readonly cause: string
  /** What an operator can do. */
  readonly advice: string | null
}

/** Logs the first of consecutive failures, each new cause of theirs, a line a minute after that, and the recovery. Metrics count each failure. */
export class FailureLog {
  readonly #log: Log
  readonly #clock: Clock
  readonly #part: string
  #isFailing = false
  #cause: unknown
  #lastLoggedMs = Number.NEGATIVE_INFINITY

  /** @param part component or operation that can fail, such as `key service lookup` */
  constructor(part: string, log: Log, clock: Clock) {
    this.#part = part
    this.#log = log
    this.#clock = clock
  }

  /** Logs only message and code of the error: ioredis attaches the password of a rejected AUTH to its errors. */
  failed(error: { readonly message: string; readonly code?: unknown }, explanation?: Explanation): void {
    const nowMs = this.#clock.monotonicMs()
    const cause = explanation?.cause ?? error.code
    const isKnown = this.#isFailing && (cause === undefined || cause === this.#cause)
    if (nowMs - this.#lastLoggedMs < (isKnown ? REPEAT_MS : MIN_INTERVAL_MS)) return
    this.#isFailing = true
    this.#cause = cause
    this.#lastLoggedMs = nowMs
    const why = explanation === undefined ? {} : { cause: explanation.cause, advice: explanation.advice }
    const fields = { part: this.#part, reason: error.message, code: error.code, ...why }
    this.#log.warn(fields, `${this.#part} failing`)
  }

  succeeded(): void {
    if (!this.#isFailing) return
    this.#isFailing = false
    this.#log.info({ part: this.#part }, `${this.#part} recovered`)
  }
}

export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}
