import { encodeChange } from '../../domain/wire.ts'
import { type ControlLogger, causeOf } from '../control-logger.ts'
import { backoffMs, type Timers } from '../timers.ts'
import type { Announcer } from './announcer.ts'
import type { KeyRepository, PendingChange, StoredKey } from './key-repository.ts'

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
  #cancelRetry: (() => void) | null = null
  #stopped = false
  /** What goes on after its answer was given. */
  readonly #unfinished = new Set<Promise<void>>()

  constructor(parts: OutboxParts) {
    this.#parts = parts
    parts.announcer.onReady(() => this.kick())
  }

  /**
   * Announces a change that was committed just now.
   * @returns whether it is announced; false after a second, while that goes on in the background
   */
  async announce(key: StoredKey, change: PendingChange): Promise<boolean> {
    if (this.#parts.announcer.state() !== 'ready') return false
    return this.#tellInTime(key, [change])
  }

  /** Announces what is left of the changes of a key. @returns as `announce` does */
  async settle(key: StoredKey): Promise<boolean> {
    const changes = await this.#parts.repository.pendingChangesOf(key.digest)
    if (changes.length === 0) return true
    if (this.#parts.announcer.state() !== 'ready') return false
    return this.#tellInTime(key, changes)
  }

  /** Announces whatever is left: at start, when Redis is back, after a failure. */
  kick(): void {
    this.#forgetRetry()
    this.#askedAgain = true
    if (this.#stopped || this.#run !== null) return
    this.#run = this.#drainWhileAsked().finally(() => {
      this.#run = null
    })
  }

  /** For whoever noticed that something is left, but knows no reason why another attempt should succeed by now. */
  nudge(): void {
    if (this.#cancelRetry === null) this.kick()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#forgetRetry()
    await this.#run
    await Promise.all(this.#unfinished)
  }

  #forgetRetry(): void {
    this.#cancelRetry?.()
    this.#cancelRetry = null
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
    const { repository } = this.#parts
    const changes = await repository.pendingChangesOf(digest)
    // Read after the notes, so that it is at least as new as each of them.
    const key = await repository.findByDigest(digest)
    if (key !== null) await this.#tell(key, changes)
    await repository.forgetChanges(changes)
  }

  /** The record first: who hears of a change must find it. */
  async #tell(key: StoredKey, changes: readonly PendingChange[]): Promise<void> {
    const { announcer } = this.#parts
    await announcer.put(key)
    for (const change of changes) await announcer.publish(encodeChange(change))
  }

  /** The change is committed: nothing that goes wrong from here on may look as if it were not. */
  #tellInTime(key: StoredKey, changes: readonly PendingChange[]): Promise<boolean> {
    const { promise: late, resolve: giveUp } = Promise.withResolvers<boolean>()
    const cancel = this.#parts.timers.after(ANNOUNCE_TIMEOUT_MS, () => giveUp(false))
    const told = this.#tell(key, changes)
    // No answer waits for this: a change that is told twice does no harm.
    const forgotten = told
      .then(() => this.#parts.repository.forgetChanges(changes))
      .catch(error => this.#retryLater(error))
      .finally(() => this.#unfinished.delete(forgotten))
    this.#unfinished.add(forgotten)
    const announced = told.then(
      () => true,
      () => false,
    )
    return Promise.race([announced, late]).finally(cancel)
  }

  #retryLater(error: unknown): void {
    const { logger, timers, random } = this.#parts
    if (this.#failures++ === 0) {
      logger.warn({ cause: causeOf(error) }, 'a change could not be announced; trying again')
    }
    this.#forgetRetry()
    if (!this.#stopped) {
      this.#cancelRetry = timers.after(backoffMs(this.#failures, random()), () => this.kick())
    }
  }
}
