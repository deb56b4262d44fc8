import type { Timers } from '../domain/timers.ts'
import { type Endpoint, isSameServer } from './endpoint.ts'
import type { PrimaryQuestion } from './sentinels.ts'

/** Under a load of changes, the Sentinels are asked this often at most. */
const PAUSE_MS = 50

/**
 * Whether a majority of the Sentinels still names the server of a connection. A primary that was replaced may keep its connections:
 * its part of a divided network goes on, and what is announced to it reaches only the gateways that are there as well.
 */
export class PrimaryCheck {
  readonly #question: PrimaryQuestion
  readonly #timers: Timers
  /** The server that the connection was opened to. */
  readonly #connectedTo: () => Endpoint | null
  readonly #onOther: () => void
  #pause = Promise.resolve()
  #next: Promise<boolean> | null = null

  /** @param parts.onOther called when they name another server */
  constructor(parts: {
    readonly question: PrimaryQuestion
    readonly timers: Timers
    readonly connectedTo: () => Endpoint | null
    readonly onOther: () => void
  }) {
    this.#question = parts.question
    this.#timers = parts.timers
    this.#connectedTo = parts.connectedTo
    this.#onOther = parts.onOther
  }

  /** Asks them after this call: an answer that is on the way may be older than what the caller has just written. */
  confirm(): Promise<boolean> {
    this.#next ??= this.#pause.then(() => {
      this.#next = null
      this.#pause = new Promise(resolve => void this.#timers.after(PAUSE_MS, resolve))
      return this.#ask()
    })
    return this.#next
  }

  stop(): void {
    this.#question.stop()
  }

  async #ask(): Promise<boolean> {
    const server = this.#connectedTo()
    try {
      const primary = await this.#question.ask()
      // A connection that was opened meanwhile is not the one that was asked about.
      if (server === null || server !== this.#connectedTo()) return false
      if (isSameServer(primary, server)) return true
      this.#onOther()
    } catch {
      // No majority answers.
    }
    return false
  }
}
