import type { KeyObject } from 'node:crypto'
import type { Clock } from '../../../domain/clock.ts'
import { encodeMessage } from '../../../domain/invalidation-message.ts'
import type { PendingChange } from '../database/key-repository.ts'

/** Encodes and signs the messages of this process. */
export interface MessageEncoder {
  change(change: PendingChange): string
  heartbeat(): string
}

interface Parts {
  /** Identifies this run of this process, since its monotonic clock starts anew with each run. */
  readonly sender: string
  readonly clock: Clock
  /** Read for each message: a reload may change it. Null: messages are not signed. */
  readonly messageKey: () => KeyObject | null
}

export function createMessageEncoder({ sender, clock, messageKey }: Parts): MessageEncoder {
  /** Signed once for all regions. */
  const changes = new WeakMap<PendingChange, { readonly text: string; readonly key: KeyObject | null }>()
  return {
    change(change) {
      const key = messageKey()
      const known = changes.get(change)
      if (known !== undefined && known.key === key) return known.text
      const { digest, version, atMs } = change
      const text = encodeMessage({ kind: 'change', sender, digest, version, atMs }, key)
      changes.set(change, { text, key })
      return text
    },
    heartbeat() {
      const monotonicMs = Math.floor(clock.monotonicMs())
      return encodeMessage({ kind: 'heartbeat', sender, monotonicMs, atMs: clock.wallMs() }, messageKey())
    },
  }
}
