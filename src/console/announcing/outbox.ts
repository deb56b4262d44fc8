import type { Clock, Timers } from '../../domain/clock.ts'
import type { StoredKey } from '../../domain/key/key-record.ts'
import { REVOCATION_TIMING } from '../../domain/revocation-timing.ts'
import { type ControlLogger, describeError } from '../../observability/control-logger.ts'
import { findTrouble } from '../platform/database/database-unavailable.ts'
import { backoffMs } from '../platform/jobs/timers.ts'
import { type Announcement, type Announcer, isUnanswered, type MessageEncoder } from './announcer.ts'
import { type PendingChange, type PendingChanges, toPendingChange } from './outbox-rows.ts'
import { Recovery } from './recovery.ts'
import { RedisMark, type Verified } from './redis-mark.ts'

/**
 * Changes announced concurrently, so that a burst of revocations does not queue one by one, and a far region, to which each batch
 * is a round trip, catches up with thousands.
 */
const BATCH_SIZE = 512
const POLL_INTERVAL_MS = 25
/**
 * A write that takes longer than this and the way to a far region may come after that of a newer version, which another console has
 * announced meanwhile.
 */
const LATE_MS = 100
const MAX_DOUBTFUL = 10_000

interface DoubtfulWrite {
  readonly version: number
  /** Redis answered, but late. */
  readonly isAnswered: boolean
}

/** The keys whose records are announced. */
export interface AnnouncedKeys {
  /** Those that exist, by digest; in one query. */
  findByDigests(digests: readonly string[]): Promise<ReadonlyMap<string, StoredKey>>
}

interface OutboxParts {
  readonly repository: PendingChanges & AnnouncedKeys
  readonly announcer: Announcer
  readonly messages: MessageEncoder
  readonly clock: Clock
  readonly timers: Timers
  readonly logger: ControlLogger
  /** From 0 to 1, for jitter. */
  readonly random: () => number
  /** To a region that may be far, and back. */
  readonly roundTrip?: { readonly ms: number } | null
}

/**
 * Announces committed changes: writes the record, publishes the change, deletes it from the outbox, in this order: a gateway
 * that receives the change must find the record. Each step may be repeated; a failure is retried until it succeeds, and a crash leaves the change in the outbox.
 */
export class Outbox {
  readonly #parts: OutboxParts
  readonly #recovery: Recovery
  readonly #mark: RedisMark
  #run: Promise<void> | null = null
  #isDrainRequested = false
  #failures = 0
  #cancelRetry: (() => void) | null = null
  #stopped = false
  /** Announcements that continue after the response to their request. */
  readonly #unfinished = new Set<Promise<void>>()
  /**
   * Keys that were written late, or without an answer of Redis, which may carry the write out at any time. If it has evicted
   * the record of a newer version by then, the older one is back, and a gateway that started since would use it.
   */
  readonly #doubtful = new Map<string, DoubtfulWrite>()

  constructor(parts: OutboxParts) {
    this.#parts = parts
    this.#mark = new RedisMark(parts)
    this.#recovery = new Recovery({ ...parts, mark: this.#mark })
    parts.announcer.onReady(() => {
      this.#mark.doubt()
      this.requestDrain()
    })
    parts.announcer.onOtherSilent(() => {
      this.#recovery.doubtLatest()
      this.requestDrain()
    })
  }

  /**
   * Announces the changes of these keys that were just committed, all at once: callers bound their number. No failure from here on
   * may look as if they were not.
   * @returns false after a second, while announcing continues in the background
   */
  async announce(keys: readonly StoredKey[], changes: readonly PendingChange[]): Promise<boolean> {
    const { announcer, repository, timers } = this.#parts
    if (announcer.state() !== 'ready' || this.#mark.isSuperseded) return false
    // A Redis that is not known yet may be another one.
    const announcement = this.#mark.verify().then(async ({ mark }) => {
      throwFirstFailure(await this.write(this.#announcementsOf(keys, changes)))
      return mark
    })
    const { promise: late, resolve: giveUp } = Promise.withResolvers<boolean>()
    const cancel = timers.after(REVOCATION_TIMING.announceTimeoutMs, () => giveUp(false))
    // No answer waits for this: announcing a change twice does no harm.
    const deletion = announcement
      .then(async mark => {
        await this.#requireConfirmation()
        await repository.deletePendingChanges(changes, mark)
      })
      .catch(error => this.#retryLater(error))
      .finally(() => this.#unfinished.delete(deletion))
    this.#unfinished.add(deletion)
    const announced = announcement.then(
      () => true,
      () => false,
    )
    return Promise.race([announced, late]).finally(cancel)
  }

  /** Announces the changes of a key that are still in the outbox. @returns as `announce` does */
  async announcePending(key: Pick<StoredKey, 'digest'>): Promise<boolean> {
    const changes = await this.#parts.repository.findPendingChanges(key.digest)
    if (changes.length === 0) return true
    if (this.#parts.announcer.state() !== 'ready') return false
    // Read after the changes, so that it is at least as new as each of them.
    const found = await this.#parts.repository.findByDigests([key.digest])
    const stored = found.get(key.digest)
    return stored === undefined || this.announce([stored], changes)
  }

  /**
   * Whether every change of a key of this workspace that was committed until then is announced, or will be in time; false if the database
   * does not say.
   * @param workspaceId null: of any
   */
  async hasAnnounced(workspaceId: string | null, atMs: number, maxWaitMs: number): Promise<boolean> {
    const { repository, announcer, timers } = this.#parts
    let isLate = maxWaitMs <= 0
    const cancel = timers.after(maxWaitMs, () => {
      isLate = true
    })
    try {
      while (await repository.hasPendingUntil(workspaceId, atMs)) {
        if (isLate || announcer.state() !== 'ready') return false
        this.requestDrainUnlessWaiting()
        await new Promise<void>(resolve => void timers.after(POLL_INTERVAL_MS, resolve))
      }
      return true
    } catch (error) {
      // The changes are committed: no failure from here on may look as if they were not.
      if (findTrouble(error) === null) throw error
      return false
    } finally {
      cancel()
    }
  }

  /** Whether everything that Redis may have lost was announced again since it connected. */
  hasCaughtUp(): boolean {
    return this.#recovery.isComplete()
  }

  /** The Redis that this console announces to; null until it is known. */
  get verified(): Verified | null {
    return this.#mark.verified
  }

  /** Another console has marked another Redis, or this one again. */
  doubt(verified: Verified | null): void {
    if (this.#mark.verified === verified) this.#mark.doubt()
    this.requestDrainUnlessWaiting()
  }

  /** Notes how far this Redis has every announcement. */
  async keepMark(): Promise<void> {
    await this.#recovery.keepMark()
  }

  /** Announces everything in the outbox: at start, when Redis is back, after a failure. */
  requestDrain(): void {
    this.#cancelScheduledRetry()
    this.#isDrainRequested = true
    if (this.#stopped || this.#run !== null) return
    this.#run = this.#drainWhileRequested().finally(() => {
      this.#run = null
    })
  }

  /** The same, unless a retry is scheduled: the caller has no reason to expect success any sooner. */
  requestDrainUnlessWaiting(): void {
    if (this.#cancelRetry === null) this.requestDrain()
  }

  /**
   * For changes that are pending: another console on this database may have committed them and died. While requests are announcing
   * here, only late ones count, since claiming what they are about to delete would announce it twice.
   * @param isLate whether one has been pending for longer than announcing takes in this region
   */
  requestDrainOfPending({ isLate }: { readonly isLate: boolean }): void {
    if (this.#unfinished.size === 0 || isLate) this.requestDrainUnlessWaiting()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancelScheduledRetry()
    await this.#run
    await Promise.all(this.#unfinished)
  }

  #cancelScheduledRetry(): void {
    this.#cancelRetry?.()
    this.#cancelRetry = null
  }

  async #drainWhileRequested(): Promise<void> {
    while (this.#isDrainRequested && !this.#stopped) {
      this.#isDrainRequested = false
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
    if (announcer.state() !== 'ready') {
      if (this.#doubtful.size > 0) throw new Error('Redis has not answered a write')
      return
    }
    // A deletion that is on its way would remove what is put into the outbox again, unannounced to the server of now.
    await Promise.all(this.#unfinished)
    const verified = await this.#recovery.requeueChangesAtRisk(() => this.#stopped)
    // Only this Redis has what is announced: once it is doubted, the next drain begins anew.
    while (!this.#stopped && announcer.state() === 'ready' && this.#mark.verified === verified) {
      // What requests are announcing, they will delete: announcing it twice would slow both down.
      await Promise.all(this.#unfinished)
      const changes = await repository.claimChanges(BATCH_SIZE)
      if (changes.length === 0) {
        await this.#settleDoubtful()
        await this.#recovery.completeOnceAnnounced(verified)
        return
      }
      await this.#deliver(changes, verified)
    }
  }

  /** In the order of the commits. A key that cannot be announced does not hold up the others. */
  async #deliver(changes: readonly PendingChange[], { mark }: Verified): Promise<void> {
    const { repository } = this.#parts
    const digests = [...new Set(changes.map(({ digest }) => digest))]
    // Read after the changes, so that each is at least as new as they are.
    const found = await repository.findByDigests(digests)
    const keys = digests.flatMap(digest => found.get(digest) ?? [])
    const results = await this.write(this.#announcementsOf(keys, changes))
    const failed = new Set(
      keys.flatMap(({ digest }, index) => (results[index]?.status === 'fulfilled' ? [] : digest)),
    )
    await this.#requireConfirmation()
    // A change whose key does not exist any more goes, too.
    await repository.deletePendingChanges(
      changes.filter(({ digest }) => !failed.has(digest)),
      mark,
    )
    throwFirstFailure(results)
  }

  #announcementsOf(keys: readonly StoredKey[], changes: readonly PendingChange[]): Announcement[] {
    const changesByDigest = Map.groupBy(changes, ({ digest }) => digest)
    return keys.map(key => this.#announcementOf(key, changesByDigest.get(key.digest)))
  }

  /** The record may be newer than the changes: its own version is published too. */
  #announcementOf(key: StoredKey, changes: readonly PendingChange[] = []): Announcement {
    const { clock, messages } = this.#parts
    const own = toPendingChange(key, clock.wallMs())
    const all = changes.some(({ version }) => version === own.version) ? changes : [...changes, own]
    return { key, messages: all.map(messages.change) }
  }

  /** Writes records and publishes their messages, of which records that Redis lacks have none. Never rejects. @returns the result of each */
  async write(announcements: readonly Announcement[]): Promise<readonly PromiseSettledResult<void>[]> {
    const { announcer, clock, roundTrip } = this.#parts
    const beganMs = clock.monotonicMs()
    const results = await announcer.putAll(announcements)
    const isLate = clock.monotonicMs() - beganMs > LATE_MS + (roundTrip?.ms ?? 0)
    for (const [index, { key }] of announcements.entries()) {
      const isAnswered = !isUnanswered(results[index])
      // What was sent before on this connection, Redis has carried out before.
      if (isAnswered && !isLate) this.#doubtful.delete(key.digest)
      else if (this.#doubtful.size < MAX_DOUBTFUL)
        this.#doubtful.set(key.digest, { version: key.record.version, isAnswered })
    }
    if (this.#doubtful.size > 0) this.requestDrainUnlessWaiting()
    return results
  }

  /** Announces the newest version of each doubtful key. The one that was written is only written again, if Redis did not answer. */
  async #settleDoubtful(): Promise<void> {
    const { repository } = this.#parts
    const doubtful = [...this.#doubtful].slice(0, BATCH_SIZE)
    if (doubtful.length === 0) return
    const found = await repository.findByDigests(doubtful.map(([digest]) => digest))
    for (const [digest] of doubtful) this.#doubtful.delete(digest)
    const announcements = doubtful.flatMap(([digest, { version, isAnswered }]) => {
      const key = found.get(digest)
      if (key === undefined) return []
      if (key.record.version > version) return [this.#announcementOf(key)]
      return isAnswered ? [] : [{ key, messages: [] }]
    })
    throwFirstFailure(await this.write(announcements))
    if (doubtful.length === BATCH_SIZE) await this.#settleDoubtful()
  }

  /** What only a server has that was replaced must stay in the outbox: another console announces it to the new one. */
  async #requireConfirmation(): Promise<void> {
    if (!(await this.#parts.announcer.confirm())) throw new Error('Redis may have been replaced')
  }

  #retryLater(error: unknown): void {
    const { logger, timers, random } = this.#parts
    if (this.#failures++ === 0) {
      logger.warn({ cause: describeError(error) }, 'change not announced, retrying')
    }
    this.#cancelScheduledRetry()
    if (!this.#stopped) {
      this.#cancelRetry = timers.after(backoffMs(this.#failures, random()), () => this.requestDrain())
    }
  }
}

/** Announced or not, each is tried again: the outbox still has it. */
function throwFirstFailure(results: readonly PromiseSettledResult<void>[]): void {
  const failed = results.find(result => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}
