import type { KeyObject } from 'node:crypto'
import { decodeRecord, encodeRecord, KEPT_AFTER_EXPIRY_MS } from '../../../domain/wire.ts'
import type { StoredKey } from '../database/key-repository.ts'

/** Each failed attempt is another writer's success; so many writers never meet over one key. */
const MAX_ATTEMPTS = 32
/** Records written concurrently; many more would delay heartbeats on the same connection. */
const MAX_AT_ONCE = 64

/** The first signs records, all verify them. */
export type RecordKeys = readonly [KeyObject, ...KeyObject[]]

/** A store of records with several writers. It may hold bytes that are not ours. */
export interface RecordStore {
  /** @returns no bytes if the entry is missing or no string */
  read(digest: string): Promise<Uint8Array>
  /** @returns false, without writing, if the entry is no longer `expected` */
  compareAndSet(digest: string, expected: Uint8Array, next: StoredRecord): Promise<boolean>
}

export interface StoredRecord {
  readonly text: string
  readonly expiresAtMs: number
}

/**
 * Writes the record so that the newest version with a good MAC stays, in any order of writers. The MAC is
 * verified here, since Redis must not know its key: hence read, decide, compare and set.
 */
export async function writeRecord(store: RecordStore, key: StoredKey, recordKeys: RecordKeys): Promise<void> {
  const next = storedRecordOf(key, recordKeys)
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const held = await store.read(key.digest)
    if (!mustReplace(Buffer.from(held).toString(), next.text, key, recordKeys)) return
    if (await store.compareAndSet(key.digest, held, next)) return
  }
  throw new Error(`Other writers kept changing the Redis entry; gave up after ${MAX_ATTEMPTS} attempts`)
}

/** The same for many. @returns the result of each, in their order */
export async function writeRecords(
  store: RecordStore,
  keys: readonly StoredKey[],
  recordKeys: RecordKeys,
): Promise<readonly PromiseSettledResult<void>[]> {
  const results: PromiseSettledResult<void>[] = []
  for (let from = 0; from < keys.length; from += MAX_AT_ONCE) {
    const some = keys.slice(from, from + MAX_AT_ONCE)
    results.push(...(await Promise.allSettled(some.map(key => writeRecord(store, key, recordKeys)))))
  }
  return results
}

function storedRecordOf({ record, digest }: StoredKey, recordKeys: RecordKeys): StoredRecord {
  return {
    text: encodeRecord(record, digest, recordKeys[0]),
    expiresAtMs: record.expiresAtMs + KEPT_AFTER_EXPIRY_MS,
  }
}

/** The same version with other bytes is replaced: the database is right, also about fields outside the MAC. */
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
