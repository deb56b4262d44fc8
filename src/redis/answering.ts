import type { Clock } from '../domain/clock.ts'
import type { Timers } from '../domain/timers.ts'
import { isReplyError } from './reply-error.ts'

/** Commands in a row without a reply, after which nothing more is sent than probes. */
const MAX_UNANSWERED = 3
const PROBE_AGAIN_MS = 500

export interface AnsweringParts {
  /** Sends a command that changes nothing. */
  readonly probe: () => Promise<unknown>
  /** Whether it is the server to talk to; asked after each successful probe. */
  readonly confirm?: () => Promise<boolean>
  /** Whether the connection is open. */
  readonly isOpen: () => boolean
  readonly timers: Timers
  readonly clock: Pick<Clock, 'monotonicMs'>
  /** @param isNew it is the first reply on this connection */
  readonly onAnswering: (isNew: boolean, roundTripMs: number) => void
  readonly onSilent: (error: Error) => void
}

/**
 * Whether the server behind a connection answers. An open connection does not show it: the system accepts connections for a
 * process that is suspended. A response would wait for such a server until its deadline, so a connection counts from the
 * reply to a probe on, and no longer after some commands without a reply. Not a circuit breaker, because the probe of
 * that would be a change.
 */
export class Answering {
  readonly #parts: AnsweringParts
  #isAnswering = false
  #unanswered = 0
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
      if (isReplyError(error)) this.#unanswered = 0
      else if (number === this.#number) this.#countUnanswered(number)
      throw error
    }
  }

  /** It may not be the server to talk to any more. */
  doubt(error: Error): void {
    if (!this.isAnswering) return
    this.#isAnswering = false
    this.#parts.onSilent(error)
    this.#probeLater(this.#number, false)
  }

  #countUnanswered(number: number): void {
    if (++this.#unanswered < MAX_UNANSWERED || !this.isAnswering) return
    this.#isAnswering = false
    this.#parts.onSilent(new Error(`The server did not answer ${MAX_UNANSWERED} commands in time`))
    // At once: commands that were sent together fail together, for a pause that may be over.
    void this.#probe(number, false)
  }

  #probeLater(number: number, isNew: boolean): void {
    this.#parts.timers.after(PROBE_AGAIN_MS, () => {
      // A connection that was closed begins anew when it is open again.
      if (number === this.#number && this.#parts.isOpen()) void this.#probe(number, isNew)
    })
  }

  async #probe(number: number, isNew: boolean): Promise<void> {
    const { clock, confirm = async () => true } = this.#parts
    const sentAtMs = clock.monotonicMs()
    try {
      await this.#parts.probe()
    } catch (error) {
      if (!isReplyError(error)) return this.#probeLater(number, isNew)
    }
    const roundTripMs = clock.monotonicMs() - sentAtMs
    if (!(await confirm())) return this.#probeLater(number, isNew)
    if (number !== this.#number) return
    this.#isAnswering = true
    this.#unanswered = 0
    this.#parts.onAnswering(isNew, roundTripMs)
  }
}
