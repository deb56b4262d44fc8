import type { Clock } from '../../domain/clock.ts'
import type { Announcer } from './announcer.ts'
import type { PendingChanges } from './outbox-rows.ts'
import type { RedisMark, Verified } from './redis-mark.ts'

/**
 * Redis may lose confirmed writes: a promoted replica lacks the last moments, a server restored from a snapshot lacks up
 * to an hour by Redis's defaults. The older record of a revoked key has a good MAC and would be believed.
 */
const AT_RISK_MS = 65 * 60_000
/** A loss of what a console wrote before its last second is found by another one; the rest is for clocks that differ. */
const LATEST_MS = 10_000

interface RecoveryParts {
  readonly repository: PendingChanges
  readonly announcer: Announcer
  readonly clock: Clock
  readonly mark: RedisMark
}

/**
 * After each connection to Redis, and before heartbeats resume, every revocation and rotation since 65 minutes before
 * Redis was last seen alive, or before its mark was noted, is put into the outbox again.
 */
export class Recovery {
  readonly #parts: RecoveryParts
  #aliveAtMs: number
  /** The last Redis for which recovery completed. */
  #completed: Verified | null
  /** The one for which changes were requeued, and the time of the newest change that was pending then. */
  #requeued: Verified | null = null
  #requeuedUntilMs = Number.NEGATIVE_INFINITY
  /** Of the mark in Redis, which may be of a snapshot. */
  #knownUntilMs = Number.POSITIVE_INFINITY
  /** Of a console that has died, or stopped. */
  #areLatestInDoubt = false

  constructor(parts: RecoveryParts) {
    this.#parts = parts
    this.#aliveAtMs = parts.clock.wallMs()
    this.#completed = parts.mark.verified
  }

  /** Called before each heartbeat, so that it also records when Redis was last alive. */
  isComplete(): boolean {
    if (this.#areLatestInDoubt || this.#completed === null || this.#completed !== this.#parts.mark.verified)
      return false
    if (this.#parts.announcer.state() === 'ready') this.#aliveAtMs = this.#parts.clock.wallMs()
    return true
  }

  /** What another console announced last may be lost: each console finds a loss by its own writes. */
  doubtLatest(): void {
    this.#areLatestInDoubt = true
  }

  /** @returns the Redis to announce them to */
  async requeueChangesAtRisk(isStopped: () => boolean): Promise<Verified> {
    const { mark, repository, clock } = this.#parts
    let verified = await mark.verify()
    while (!isStopped() && mark.verified === verified && (await repository.requeueNextKeys())) {}
    const isKnown = this.#completed === verified || this.#requeued === verified
    if (isStopped() || (isKnown && !this.#areLatestInDoubt)) return verified
    if (isKnown) {
      verified = await mark.renew(verified)
      await repository.requeueChangesSince(clock.wallMs() - LATEST_MS)
    } else {
      this.#knownUntilMs = Math.min(this.#knownUntilMs, verified.untilMs)
      const knownUntilMs = Math.min(this.#knownUntilMs, this.#aliveAtMs)
      await repository.requeueChangesSince(knownUntilMs - AT_RISK_MS)
    }
    const pending = await repository.pendingSpan(verified.mark)
    this.#requeuedUntilMs = pending?.newestMs ?? Number.NEGATIVE_INFINITY
    this.#requeued = verified
    this.#areLatestInDoubt = false
    this.#completed = null
    return verified
  }

  /** Once this console has nothing left to announce. What another one has claimed may be what Redis has lost. */
  async completeOnceAnnounced(verified: Verified): Promise<void> {
    if (this.#completed === verified) return
    const pending = await this.#parts.repository.pendingSpan(verified.mark)
    if (pending !== null && pending.oldestMs <= this.#requeuedUntilMs) return
    await this.#keep(verified)
    this.#completed = verified
    this.#knownUntilMs = Number.POSITIVE_INFINITY
  }

  /** While Redis has everything that is not in the outbox. */
  async keepMark(): Promise<void> {
    if (this.#completed !== null && this.isComplete()) await this.#keep(this.#completed)
  }

  async #keep(verified: Verified): Promise<void> {
    const { mark, repository, clock } = this.#parts
    const nowMs = clock.wallMs()
    const pending = await repository.pendingSpan(verified.mark)
    await mark.keep(verified, Math.min(nowMs, pending?.oldestMs ?? nowMs))
  }
}
