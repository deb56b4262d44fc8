import type { StoredKey } from '../../domain/key/key-record.ts'
import { decodeRecord, KEPT_AFTER_EXPIRY_MS } from '../../domain/wire.ts'
import type { RecordKeys } from '../platform/console-secrets.ts'
import type { Announcement } from './announcer.ts'
import { recordTextOf } from './signed-texts.ts'

/** Each failed attempt is another writer's success; so many writers never meet over one key. */
const MAX_ATTEMPTS = 32
/** Records written concurrently, about 10 ms of a Redis; many more would delay heartbeats on the same connection. */
const MAX_AT_ONCE = 512

/** A store of records with several writers. It may hold bytes that are not ours. */
export interface RecordStore {
  /**
   * Writes each record and publishes its messages, in this order, unless the entry says that it is of a newer version.
   * Never rejects.
   * @returns for each, in their order, null once that is done, or the entry that says so: then nothing was written or published
   */
  writeAll(writes: readonly RecordWrite[]): Promise<readonly PromiseSettledResult<Uint8Array | null>[]>
  publish(message: string): Promise<void>
}

export interface RecordWrite {
  readonly digest: string
  readonly text: string
  readonly version: number
  readonly expiresAtMs: number
  readonly messages: readonly string[]
  /** An entry of a newer version whose MAC is not valid: it is replaced too. */
  readonly unverified: Uint8Array | null
}

/**
 * Writes the records so that the newest version with a good MAC stays, in any order of writers. The MAC is
 * verified here, since Redis must not know its key: only an entry that says that it is newer is returned for that.
 * Never rejects.
 * @returns the result of each, in their order
 */
export async function writeRecords(
  store: RecordStore,
  announcements: readonly Announcement[],
  recordKeys: RecordKeys,
): Promise<readonly PromiseSettledResult<void>[]> {
  const results: PromiseSettledResult<void>[] = []
  for (let from = 0; from < announcements.length; from += MAX_AT_ONCE) {
    results.push(...(await writeSome(store, announcements.slice(from, from + MAX_AT_ONCE), recordKeys)))
  }
  return results
}

interface Attempt {
  readonly index: number
  readonly key: StoredKey
  readonly write: RecordWrite
}

async function writeSome(
  store: RecordStore,
  announcements: readonly Announcement[],
  recordKeys: RecordKeys,
): Promise<readonly PromiseSettledResult<void>[]> {
  const results = announcements.map((): PromiseSettledResult<void> => GAVE_UP)
  let attempts: Attempt[] = []
  for (const [index, { key, messages }] of announcements.entries()) {
    try {
      attempts.push({ index, key, write: writeOf(key, messages, recordKeys) })
    } catch (reason) {
      // A row of the database that no reader would take.
      results[index] = { status: 'rejected', reason }
    }
  }
  for (let round = 0; round < MAX_ATTEMPTS && attempts.length > 0; round++) {
    const outcomes = await store.writeAll(attempts.map(({ write }) => write))
    const again: Attempt[] = []
    const concluded = attempts.map(async (attempt, at) => {
      const outcome = outcomes[at] ?? GAVE_UP
      if (outcome.status === 'rejected') throw outcome.reason
      if (outcome.value === null) return
      if (isNewer(Buffer.from(outcome.value).toString(), attempt.key, recordKeys)) {
        return publishAll(store, attempt.write.messages)
      }
      again.push({ ...attempt, write: { ...attempt.write, unverified: outcome.value } })
      throw GAVE_UP.reason
    })
    for (const [at, result] of (await Promise.allSettled(concluded)).entries()) {
      results[attempts[at]?.index ?? 0] = result
    }
    attempts = again
  }
  return results
}

const GAVE_UP: PromiseRejectedResult = {
  status: 'rejected',
  reason: new Error(`Other writers kept changing the Redis entry; gave up after ${MAX_ATTEMPTS} attempts`),
}

async function publishAll(store: RecordStore, messages: readonly string[]): Promise<void> {
  for (const message of messages) await store.publish(message)
}

function writeOf(key: StoredKey, messages: readonly string[], recordKeys: RecordKeys): RecordWrite {
  const { record, digest } = key
  return {
    digest,
    text: recordTextOf(key, recordKeys[0]),
    version: record.version,
    expiresAtMs: record.expiresAtMs + KEPT_AFTER_EXPIRY_MS,
    messages,
    unverified: null,
  }
}

function isNewer(heldText: string, { digest, record }: StoredKey, recordKeys: RecordKeys): boolean {
  const held = decodeRecord(heldText, digest, recordKeys)
  return held.ok && held.grant.version > record.version
}
