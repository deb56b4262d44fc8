import type { KeyObject } from 'node:crypto'
import { encodeRecord } from '../../../domain/wire.ts'
import type { StoredKey } from '../database/key-repository.ts'

const texts = new WeakMap<StoredKey, { readonly text: string; readonly recordKey: KeyObject }>()

/** As `encodeRecord`, once for the response to a lookup and the Redis of each region: most of its time is the signature. */
export function recordTextOf(key: StoredKey, recordKey: KeyObject): string {
  const known = texts.get(key)
  if (known?.recordKey === recordKey) return known.text
  const text = encodeRecord(key.record, key.digest, recordKey)
  texts.set(key, { text, recordKey })
  return text
}
