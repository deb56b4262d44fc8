import type { KeyObject } from 'node:crypto'
import { decodeRecord, encodeRecord, KEPT_AFTER_EXPIRY_MS } from '../../../domain/wire.ts'
import type { StoredKey } from '../database/key-repository.ts'

/** Each failed attempt is another writer's success; so many writers never meet over one key. */
const MAX_ATTEMPTS = 32
/** Records written concurrently, about 10 ms of a Redis; many more would delay heartbeats on the same connection. */
const MAX_AT_ONCE = 512

/** The first signs records, all verify them. */
export type RecordKeys = readonly [KeyObject, ...KeyObject[]]

/** A record to write, and what to publish once it is written. */
export interface Announcement {
  readonly key: StoredKey
  /** Encoded changes of the key. */
  readonly messages: readonly string[]
}

/** A store of records with several writers. It may hold bytes that are not ours. */
export interface RecordStore {
  /**
   * Writes the record and publishes the messages, in this order, unless the entry says that it is of a newer version.
   * @param unverified such an entry whose MAC is not valid: it is replaced too
   * @returns null once that is done, or the entry that says so: then nothing was written or published
   */
  write(digest: string, next: WrittenRecord, unverified: Uint8Array | null): Promise<Uint8Array | null>
  publish(message: string): Promise<void>
}

export interface WrittenRecord {
  readonly text: string
  readonly version: number
  readonly expiresAtMs: number
  readonly messages: readonly string[]
}

/**
 * Writes the record so that the newest version with a good MAC stays, in any order of writers. The MAC is
 * verified here, since Redis must not know its key: only an entry that says that it is newer is returned for that.
 */
export async function writeRecord(
  store: RecordStore,
  { key, messages }: Announcement,
  recordKeys: RecordKeys,
): Promise<void> {
  const next = { ...writtenRecordOf(key, recordKeys), messages }
  let unverified: Uint8Array | null = null
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const held = await store.write(key.digest, next, unverified)
    if (held === null) return
    if (isNewer(Buffer.from(held).toString(), key, recordKeys)) {
      for (const message of messages) await store.publish(message)
      return
    }
    unverified = held
  }
  throw new Error(`Other writers kept changing the Redis entry; gave up after ${MAX_ATTEMPTS} attempts`)
}

/** The same for many. @returns the result of each, in their order */
export async function writeRecords(
  store: RecordStore,
  announcements: readonly Announcement[],
  recordKeys: RecordKeys,
): Promise<readonly PromiseSettledResult<void>[]> {
  const results: PromiseSettledResult<void>[] = []
  for (let from = 0; from < announcements.length; from += MAX_AT_ONCE) {
    const some = announcements
      .slice(from, from + MAX_AT_ONCE)
      .map(each => writeRecord(store, each, recordKeys))
    results.push(...(await Promise.allSettled(some)))
  }
  return results
}

function writtenRecordOf({ record, digest }: StoredKey, recordKeys: RecordKeys) {
  return {
    text: encodeRecord(record, digest, recordKeys[0]),
    version: record.version,
    expiresAtMs: record.expiresAtMs + KEPT_AFTER_EXPIRY_MS,
  }
}

function isNewer(heldText: string, { digest, record }: StoredKey, recordKeys: RecordKeys): boolean {
  const held = decodeRecord(heldText, digest, recordKeys)
  return held.ok && held.grant.version > record.version
}
