import type { Clock } from '../../../domain/clock.ts'
import { type ControlLogger, causeOf } from '../../../observability/control-logger.ts'
import { backoffMs, type Timers } from '../../timers.ts'
import type { KeyRepository, PendingChange, StoredKey } from '../database/key-repository.ts'
import type { Announcer } from './announcer.ts'
import type { MessageEncoder } from './message-encoder.ts'
import { Recovery } from './recovery.ts'

/** So many keys are announced side by side; a burst of revocations must not wait in single file. */
const BATCH_SIZE = 64
/** How long an answer waits for its change to be announced. */
const ANNOUNCE_TIMEOUT_MS = 1000

export interface OutboxParts {
  readonly repository: KeyRepository
  readonly announcer: Announcer
  readonly messages: MessageEncoder
  readonly clock: Clock
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
  readonly #recovery: Recovery
  #run: Promise<void> | null = null
  #askedAgain = false
  #failures = 0
  #cancelRetry: (() => void) | null = null
  #stopped = false
  /** What goes on after its answer was given. */
  readonly #unfinished = new Set<Promise<void>>()

  constructor(parts: OutboxParts) {
    this.#parts = parts
    this.#recovery = new Recovery(parts)
    parts.announcer.onReady(() => {
      this.#recovery.begin()
      this.kick()
    })
  }

  /**
   * Announces changes of a key that were committed just now.
   * @returns whether they are announced; false after a second, while that goes on in the background
   */
  async announce(key: StoredKey, changes: readonly PendingChange[]): Promise<boolean> {
    if (this.#parts.announcer.state() !== 'ready') return false
    return this.#tellInTime(key, changes)
  }

  /** Announces what is left of the changes of a key. @returns as `announce` does */
  async settle(key: Pick<StoredKey, 'digest'>): Promise<boolean> {
    const changes = await this.#parts.repository.pendingChangesOf(key.digest)
    if (changes.length === 0) return true
    if (this.#parts.announcer.state() !== 'ready') return false
    // Read after the notes, so that it is at least as new as each of them.
    const stored = await this.#parts.repository.findByDigest(key.digest)
    return stored === null || this.#tellInTime(stored, changes)
  }

  /** Whether all that Redis may have lost was told to it again, since the connection was made. */
  hasCaughtUp(): boolean {
    return this.#recovery.isDone()
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
    if (announcer.state() !== 'ready') return
    const finishRecovery = await this.#recovery.noteWhatMayBeLost()
    while (!this.#stopped && announcer.state() === 'ready') {
      const changes = await repository.claimChanges(BATCH_SIZE)
      if (changes.length === 0) {
        finishRecovery()
        return
      }
      await this.#deliver(changes)
    }
  }

  /** One key that cannot be announced keeps no other from it. */
  async #deliver(changes: readonly PendingChange[]): Promise<void> {
    const { repository, announcer } = this.#parts
    const changesOf = Map.groupBy(changes, change => change.digest)
    // Read after the notes, so that each is at least as new as they are.
    const keys = [...(await repository.findByDigests([...changesOf.keys()])).values()]
    const written = await announcer.putAll(keys)
    const results = await Promise.allSettled(
      keys.map(async ({ digest }, index) => {
        const ofKey = changesOf.get(digest) ?? []
        const result = written[index]
        if (result?.status === 'rejected') throw result.reason
        await this.#publish(ofKey)
        return ofKey
      }),
    )
    const failed = results.find(result => result.status === 'rejected')
    const told = results.flatMap(result => (result.status === 'fulfilled' ? result.value : []))
    const known = new Set(keys.map(key => key.digest))
    const orphans = changes.filter(change => !known.has(change.digest))
    await repository.forgetChanges([...told, ...orphans])
    if (failed !== undefined) throw failed.reason
  }

  async #publish(changes: readonly PendingChange[]): Promise<void> {
    const { announcer, messages } = this.#parts
    for (const change of changes) await announcer.publish(messages.change(change))
  }

  /** The record first: who hears of a change must find it. */
  async #tell(key: StoredKey, changes: readonly PendingChange[]): Promise<void> {
    await this.#parts.announcer.put(key)
    await this.#publish(changes)
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
