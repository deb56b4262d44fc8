import type { Clock } from '../../../domain/clock.ts'
import type { KeyRepository } from '../database/key-repository.ts'
import type { Announcer } from './announcer.ts'

/**
 * What Redis confirmed it may still lose: a replica that takes over lacks the last moments, and a server that comes back
 * with a snapshot lacks, by Redis's own defaults, up to an hour. With it goes the newer record of a key that was revoked
 * or rotated, and the older one, whose MAC is good, would be believed. So all such changes are told once more.
 */
const MAY_BE_LOST_MS = 65 * 60_000

export interface RecoveryParts {
  readonly repository: KeyRepository
  readonly announcer: Announcer
  readonly clock: Clock
}

/**
 * What is done each time that Redis is there again, before a beat says that all is announced: every revocation and
 * rotation since 65 minutes before it was last seen alive is noted as if it were pending, and so announced again. Not
 * covered are an older snapshot, and one that comes back while no console runs: for those there is `keys sync`.
 */
export class Recovery {
  readonly #parts: RecoveryParts
  #aliveAtMs: number
  /** How often the connection was made, and for which of them all was told again. */
  #begun = 0
  #done = 0

  constructor(parts: RecoveryParts) {
    this.#parts = parts
    this.#aliveAtMs = parts.clock.wallMs()
  }

  begin(): void {
    this.#begun++
  }

  /** Asked with every beat, and so what knows when Redis was last alive. */
  isDone(): boolean {
    if (this.#done !== this.#begun) return false
    if (this.#parts.announcer.state() === 'ready') this.#aliveAtMs = this.#parts.clock.wallMs()
    return true
  }

  /** @returns to be called once nothing is pending any more */
  async noteWhatMayBeLost(): Promise<() => void> {
    const current = this.#begun
    if (this.#done === current) return () => {}
    await this.#parts.repository.noteChangesSince(this.#aliveAtMs - MAY_BE_LOST_MS)
    return () => {
      this.#done = current
    }
  }
}
