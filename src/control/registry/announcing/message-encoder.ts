import type { KeyObject } from 'node:crypto'
import type { Clock } from '../../../domain/clock.ts'
import { encodeMessage } from '../../../domain/invalidation-message.ts'
import type { PendingChange } from '../database/key-repository.ts'

/** Writes the messages of this process, signed. */
export interface MessageEncoder {
  change(change: PendingChange): string
  /** As of now. */
  heartbeat(): string
}

interface Parts {
  /** This process and no other, of this run: its monotonic clock begins anew with each. */
  readonly sender: string
  readonly clock: Clock
  /** Asked for with each message: it may change. */
  readonly messageKey: () => KeyObject
}

export function createMessageEncoder({ sender, clock, messageKey }: Parts): MessageEncoder {
  return {
    change({ digest, version, atMs }) {
      return encodeMessage({ kind: 'change', sender, digest, version, atMs }, messageKey())
    },
    heartbeat() {
      const monotonicMs = Math.floor(clock.monotonicMs())
      return encodeMessage({ kind: 'heartbeat', sender, monotonicMs, atMs: clock.wallMs() }, messageKey())
    },
  }
}
