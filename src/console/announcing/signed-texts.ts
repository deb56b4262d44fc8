import type { KeyObject } from 'node:crypto'
import type { Clock } from '../../domain/clock.ts'
import { encodeMessage } from '../../domain/invalidation-message.ts'
import type { StoredKey } from '../../domain/key/key-record.ts'
import { encodeRecord } from '../../domain/wire.ts'
import type { PendingChange } from './outbox-rows.ts'

/** As `encodeRecord`, once for the response to a lookup and the Redis of each region. */
export const encodeRecordOnce = signedOnce(({ record, digest }: StoredKey, recordKey: KeyObject) =>
  encodeRecord(record, digest, recordKey),
)

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

/**
 * Encodes each value once for all regions and lookups, since most of that time is the signature.
 * @param encode signs with the key
 * @returns as `encode`; a value with another identity or another key is encoded again
 */
function signedOnce<Value extends WeakKey, Key>(
  encode: (value: Value, key: Key) => string,
): (value: Value, key: Key) => string {
  const encoded = new WeakMap<Value, { readonly text: string; readonly key: Key }>()
  return (value, key) => {
    const known = encoded.get(value)
    if (known?.key === key) return known.text
    const text = encode(value, key)
    encoded.set(value, { text, key })
    return text
  }
}
