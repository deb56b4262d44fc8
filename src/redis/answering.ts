import { ReplyError } from 'ioredis'
import type { Clock, Timers } from '../domain/clock.ts'
import { classifyRedisError } from '../domain/redis-failure.ts'
import { asError } from '../observability/failure-log.ts'

/** Commands in a row without a reply, after which nothing more is sent than probes. */
const MAX_UNANSWERED = 3

interface AnsweringParts {
  /** Sends a command that changes nothing, and is refused whenever one that changes something would be. */
  readonly probe: () => Promise<unknown>
  /** Whether to probe also while the server answers. */
  readonly isChecked: boolean
  /** Whether it is the server to talk to; asked after each successful probe. */
  readonly confirm: () => Promise<boolean>
  /** Whether the connection is open. */
  readonly isOpen: () => boolean
  readonly timers: Timers
  readonly clock: Pick<Clock, 'monotonicMs'>
  /** @param isNew it is the first reply on this connection */
  readonly onAnswering: (isNew: boolean, roundTripMs: number) => void
  /** The server does not answer commands in time, or answers with an error that every command would get. */
  readonly onFailing: (error: Error) => void
}

/** Node's timers fire up to a millisecond early by the monotonic clock: a command that took this much less may have timed out. */
export const TIMER_SLACK_MS = 2

/**
 * Whether the server behind a connection answers commands. An open connection does not show it: the kernel accepts connections
 * for a suspended process, and Redis accepts clients without a password. A connection counts as answering from its first successful
 * probe until several commands in a row get no reply, or one gets an error that every command would get. It is not a circuit
 * breaker, because the probe of a breaker would be a change.
 */
export class Answering {
  readonly #parts: AnsweringParts
  #isAnswering = false
  #unanswered = 0
  /** Probes in a row that were refused. */
  #refusals = 0
  /** Of the connection. */
  #number = 0

  constructor(parts: AnsweringParts) {
    this.#parts = parts
  }

  get isAnswering(): boolean {
    return this.#isAnswering && this.#parts.isOpen()
  }

  /** The connection was opened, for the first time or again. */
  opened(): void {
    this.#isAnswering = false
    void this.#probe(++this.#number, true)
  }

  async watch<Reply>(send: () => Promise<Reply>): Promise<Reply> {
    const number = this.#number
    try {
      const reply = await send()
      this.#unanswered = 0
      return reply
    } catch (error) {
      if (!isReplyError(error)) {
        if (number === this.#number) this.#countUnanswered(number)
      } else {
        this.#unanswered = 0
        if (number === this.#number && classifyRedisError(error, true).isGeneral) this.#fail(error)
      }
      throw error
    }
  }

  /** It may not be the server to talk to any more. */
  doubt(error: Error): void {
    if (this.isAnswering) this.#fail(error)
  }

  #fail(error: Error): void {
    if (!this.#isAnswering) return
    this.#isAnswering = false
    this.#parts.onFailing(error)
    this.#probeLater(this.#number, false)
  }

  #countUnanswered(number: number): void {
    if (++this.#unanswered < MAX_UNANSWERED || !this.isAnswering) return
    this.#isAnswering = false
    this.#parts.onFailing(new Error(`The server did not answer ${MAX_UNANSWERED} commands in time`))
    // At once: commands that were sent together fail together, for a pause that may be over.
    void this.#probe(number, false)
  }

  #probeLater(number: number, isNew: boolean): void {
    this.#afterwards(number, probePauseMs(this.#refusals), () => void this.#probe(number, isNew))
  }

  /** A connection that was closed begins anew when it is open again. */
  #afterwards(number: number, pauseMs: number, run: () => void): void {
    this.#parts.timers.after(pauseMs, () => {
      if (number === this.#number && this.#parts.isOpen()) run()
    })
  }

  async #probe(number: number, isNew: boolean): Promise<void> {
    const { clock, confirm, isChecked } = this.#parts
    const sentAtMs = clock.monotonicMs()
    try {
      await this.#parts.probe()
    } catch (error) {
      if (number !== this.#number) return
      if (isReplyError(error)) this.#refusals++
      this.#parts.onFailing(asError(error))
      return this.#probeLater(number, isNew)
    }
    const roundTripMs = clock.monotonicMs() - sentAtMs
    if (!(await confirm())) return this.#probeLater(number, isNew)
    if (number !== this.#number) return
    this.#isAnswering = true
    this.#unanswered = 0
    this.#refusals = 0
    this.#parts.onAnswering(isNew, roundTripMs)
    if (isChecked) this.#checkLater(number)
  }

  #checkLater(number: number): void {
    this.#afterwards(number, CHECK_EVERY_MS, async () => {
      if (!this.#isAnswering) return
      await this.watch(this.#parts.probe).catch(() => {}) // It has counted the failure.
      if (this.#isAnswering) this.#checkLater(number)
    })
  }
}

const FIRST_PAUSE_MS = 500
const MAX_PAUSE_MS = 2_000

/** Time between two probes of a server that answers: a full one, or one that became a replica, is found without a request. */
export const CHECK_EVERY_MS = 1_000

/** @param refusals probes in a row that were answered with errors @returns ms until the next one */
export function probePauseMs(refusals: number): number {
  return Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(refusals, 10))
}

/**
 * The nodes of a cluster fail one by one: the cluster is up if one of them answers without an error.
 * @throws the first error that Redis answered, else the first error
 */
export async function anyGoodAnswer<Reply>(answers: readonly Promise<Reply>[]): Promise<Reply> {
  try {
    return await Promise.any(answers)
  } catch (error) {
    const errors: readonly unknown[] = error instanceof AggregateError ? error.errors : [error]
    throw errors.find(isReplyError) ?? errors[0]
  }
}

/** An entry that is no string is not ours. */
export function isOtherType(error: unknown): boolean {
  return isReplyError(error) && error.message.startsWith('WRONGTYPE ')
}

/** Whether Redis replied with an error, rather than not at all. ioredis exports the class without a type. */
export function isReplyError(error: unknown): error is Error {
  return error instanceof ReplyError
}
