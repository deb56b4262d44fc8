import type { KeyObject } from 'node:crypto'
import { decodeRecord, encodeRecord, KEPT_AFTER_EXPIRY_MS } from '../../../domain/wire.ts'
import type { StoredKey } from '../database/key-repository.ts'

/** Each failed attempt is somebody else’s success; so many writers never meet over one key. */
const MAX_ATTEMPTS = 32
/** They share one round trip to Redis; many more would make its answers, and beats among them, wait for each other. */
const MAX_AT_ONCE = 64

/** The first makes the MAC of a record, all of them are accepted. */
export type RecordKeys = readonly [KeyObject, ...KeyObject[]]

/** A place for records with many writers. What it holds are bytes: they need not be ours. */
export interface RecordSlots {
  /** @returns no bytes where there is nothing, or something that is no text */
  read(digest: string): Promise<Uint8Array>
  /** @returns false, having written nothing, where the slot doesn't hold `expected` any more */
  compareAndSet(digest: string, expected: Uint8Array, next: SlotValue): Promise<boolean>
}

export interface SlotValue {
  readonly text: string
  readonly expiresAtMs: number
}

/**
 * Writes the record so that, of those with a good MAC, the newest version stays, in whatever order they are written.
 * The MAC is verified here and not in Redis, which must not know the key; so it is read, judged, compared and set.
 */
export async function project(slots: RecordSlots, key: StoredKey, recordKeys: RecordKeys): Promise<void> {
  const next = slotValueOf(key, recordKeys)
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const held = await slots.read(key.digest)
    if (!mustReplace(Buffer.from(held).toString(), next.text, key, recordKeys)) return
    if (await slots.compareAndSet(key.digest, held, next)) return
  }
  throw new Error(`Others kept changing the entry in Redis through ${MAX_ATTEMPTS} attempts to write it`)
}

/** The same for many. @returns what became of each, in their order */
export async function projectAll(
  slots: RecordSlots,
  keys: readonly StoredKey[],
  recordKeys: RecordKeys,
): Promise<readonly PromiseSettledResult<void>[]> {
  const results: PromiseSettledResult<void>[] = []
  for (let from = 0; from < keys.length; from += MAX_AT_ONCE) {
    const some = keys.slice(from, from + MAX_AT_ONCE)
    results.push(...(await Promise.allSettled(some.map(key => project(slots, key, recordKeys)))))
  }
  return results
}

function slotValueOf({ record, digest }: StoredKey, recordKeys: RecordKeys): SlotValue {
  return {
    text: encodeRecord(record, digest, recordKeys[0]),
    expiresAtMs: record.expiresAtMs + KEPT_AFTER_EXPIRY_MS,
  }
}

/** The same version in other words is replaced: the database is right, also about what the MAC doesn't cover. */
export function mustReplace(
  heldText: string,
  nextText: string,
  key: StoredKey,
  recordKeys: RecordKeys,
): boolean {
  if (heldText === nextText) return false
  if (heldText === '') return true
  const held = decodeRecord(heldText, key.digest, recordKeys)
  return !held.ok || held.grant.version <= key.record.version
}
