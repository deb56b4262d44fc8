import type { Clock } from '../../domain/clock.ts'
import type { KeyRepository } from '../keys/rows/key-repository.ts'
import type { Announcer } from './announcer.ts'

/**
 * Redis may lose confirmed writes: a promoted replica lacks the last moments, a server restored from a snapshot lacks up
 * to an hour by Redis's defaults. The older record of a revoked key has a good MAC and would be believed.
 */
const AT_RISK_MS = 65 * 60_000

export interface RecoveryParts {
  readonly repository: KeyRepository
  readonly announcer: Announcer
  readonly clock: Clock
}

/**
 * After each connection to Redis, and before heartbeats resume, every revocation and rotation since 65 minutes before
 * Redis was last seen alive is put into the outbox again. An older snapshot, or one that is restored while no console
 * runs, needs `keys sync`.
 */
export class Recovery {
  readonly #parts: RecoveryParts
  #aliveAtMs: number
  /** Number of connections so far, and the last of them after which recovery completed. */
  #connections = 0
  #completed = 0
  /** The connection after which changes were requeued, and the time of the newest change that was pending then. */
  #requeued = 0
  #requeuedUntilMs = Number.NEGATIVE_INFINITY

  constructor(parts: RecoveryParts) {
    this.#parts = parts
    this.#aliveAtMs = parts.clock.wallMs()
  }

  onConnected(): void {
    this.#connections++
  }

  /** Called before each heartbeat, so that it also records when Redis was last alive. */
  isComplete(): boolean {
    if (this.#completed !== this.#connections) return false
    if (this.#parts.announcer.state() === 'ready') this.#aliveAtMs = this.#parts.clock.wallMs()
    return true
  }

  /** @returns call it once this console has nothing left to announce */
  async requeueChangesAtRisk(): Promise<() => Promise<void>> {
    while (await this.#parts.repository.requeueNextKeys()) {}
    const current = this.#connections
    if (this.#completed === current) return async () => {}
    if (this.#requeued !== current) {
      await this.#parts.repository.requeueChangesSince(this.#aliveAtMs - AT_RISK_MS)
      this.#requeuedUntilMs =
        (await this.#parts.repository.pendingSpan())?.newestMs ?? Number.NEGATIVE_INFINITY
      this.#requeued = current
    }
    return () => this.#completeOnceAnnounced(current)
  }

  /** What another console has claimed is not announced yet, and may be what Redis has lost. */
  async #completeOnceAnnounced(connection: number): Promise<void> {
    const pending = await this.#parts.repository.pendingSpan()
    if (pending === null || pending.oldestMs > this.#requeuedUntilMs) this.#completed = connection
  }
}
