import type { Clock } from '../../../domain/clock.ts'
import type { KeyRepository } from '../database/key-repository.ts'
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

  /** @returns call it once the outbox is empty */
  async requeueChangesAtRisk(): Promise<() => void> {
    while (await this.#parts.repository.requeueNextKeys()) {}
    const current = this.#connections
    if (this.#completed === current) return () => {}
    await this.#parts.repository.requeueChangesSince(this.#aliveAtMs - AT_RISK_MS)
    return () => {
      this.#completed = current
    }
  }
}
