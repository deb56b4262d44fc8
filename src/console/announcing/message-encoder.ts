import type { KeyObject } from 'node:crypto'
import type { Clock } from '../../domain/clock.ts'
import { encodeMessage } from '../../domain/invalidation-message.ts'
import type { PendingChange } from './rows/pending-changes.ts'
import { signedOnce } from './signed-once.ts'

/** Encodes and signs the messages of this process to one region. */
export interface MessageEncoder {
  change(change: PendingChange): string
  heartbeat(): string
}

interface Parts {
  /** Identifies this run of this process, since its monotonic clock starts anew with each run. */
  readonly sender: string
  readonly region: string
  readonly clock: Clock
  /** Read for each message: a reload may change it. Null: messages are not signed. */
  readonly messageKey: () => KeyObject | null
}

export function createMessageEncoder({ sender, region, clock, messageKey }: Parts): MessageEncoder {
  const changeText = signedOnce(({ digest, version, atMs }: PendingChange, key: KeyObject | null) =>
    encodeMessage({ kind: 'change', region, sender, digest, version, atMs }, key),
  )
  return {
    change: change => changeText(change, messageKey()),
    heartbeat() {
      const times = { monotonicMs: Math.floor(clock.monotonicMs()), atMs: clock.wallMs() }
      return encodeMessage({ kind: 'heartbeat', region, sender, ...times }, messageKey())
    },
  }
}
