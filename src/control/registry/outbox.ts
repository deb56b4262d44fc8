import { encodeChange } from '../../domain/wire.ts'
import type { ControlLogger } from '../control-logger.ts'
import { backoffMs, type Timers } from '../timers.ts'
import type { Announcer } from './announcer.ts'
import type { KeyRepository } from './key-repository.ts'

/** So many keys are announced side by side; a burst of revocations must not wait in single file. */
const BATCH_SIZE = 64
/** How long an answer waits for its change to be announced. */
const ANNOUNCE_TIMEOUT_MS = 1000

export interface OutboxParts {
  readonly repository: KeyRepository
  readonly announcer: Announcer
  readonly timers: Timers
  readonly logger: ControlLogger
  /** From 0 to 1, for jitter. */
  readonly random: () => number
}

/**
 * Announces what was committed: record written, change published, note deleted, in this order, each step harmless when
 * it is repeated. What fails is tried again until it succeeds; a crash in between leaves the note.
 */
export class Outbox {
  readonly #parts: OutboxParts
  #run: Promise<void> | null = null
  #askedAgain = false
  #failures = 0
  #cancelRetry = () => {}
  #stopped = false

  constructor(parts: OutboxParts) {
    this.#parts = parts
    parts.announcer.onReady(() => this.kick())
  }

  /**
   * Announces the changes of one key now.
   * @returns whether every one of them is announced; false after a second, while it goes on in the background
   */
  async announce(digest: string): Promise<boolean> {
    const { promise: late, resolve: giveUp } = Promise.withResolvers<boolean>()
    const cancel = this.#parts.timers.after(ANNOUNCE_TIMEOUT_MS, () => giveUp(false))
    // The change is committed: nothing that goes wrong from here on may look as if it were not.
    const announced = this.#announceNow(digest).catch(error => this.#retryLater(error))
    return Promise.race([announced, late]).finally(cancel)
  }

  async #announceNow(digest: string): Promise<boolean> {
    if (this.#parts.announcer.state() !== 'ready') return (await this.#pendingOf(digest)).length === 0
    await this.#deliver(digest)
    return true
  }

  /** Announces whatever is left: at start, when Redis is back, after a failure. */
  kick(): void {
    this.#cancelRetry()
    this.#askedAgain = true
    if (this.#stopped || this.#run !== null) return
    this.#run = this.#drainWhileAsked().finally(() => {
      this.#run = null
    })
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancelRetry()
    await this.#run
  }

  async #drainWhileAsked(): Promise<void> {
    while (this.#askedAgain && !this.#stopped) {
      this.#askedAgain = false
      try {
        await this.#drain()
        this.#failures = 0
      } catch (error) {
        this.#retryLater(error)
        return
      }
    }
  }

  async #drain(): Promise<void> {
    const { repository, announcer } = this.#parts
    while (!this.#stopped && announcer.state() === 'ready') {
      const changes = await repository.pendingChanges(BATCH_SIZE)
      if (changes.length === 0) return
      const digests = [...new Set(changes.map(change => change.digest))]
      const results = await Promise.allSettled(digests.map(digest => this.#deliver(digest)))
      const failed = results.find(result => result.status === 'rejected')
      if (failed !== undefined) throw failed.reason
    }
  }

  async #deliver(digest: string): Promise<void> {
    const { repository, announcer } = this.#parts
    const changes = await this.#pendingOf(digest)
    if (changes.length === 0) return
    // Read after the notes, so that it is at least as new as each of them.
    const key = await repository.findByDigest(digest)
    if (key !== null) await announcer.put(key)
    for (const change of changes) await announcer.publish(encodeChange(change))
    await repository.forgetChanges(changes)
  }

  #pendingOf(digest: string) {
    return this.#parts.repository.pendingChangesOf(digest)
  }

  #retryLater(error: unknown): false {
    const { logger, timers, random } = this.#parts
    if (this.#failures++ === 0) logger.warn({ err: error }, 'a change could not be announced; trying again')
    this.#cancelRetry()
    if (!this.#stopped) {
      this.#cancelRetry = timers.after(backoffMs(this.#failures, random()), () => this.kick())
    }
    return false
  }
}
