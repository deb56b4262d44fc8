import type { KeyObject } from 'node:crypto'
import type { Clock } from '../../domain/clock.ts'
import { encodeMessage } from '../../domain/invalidation-message.ts'
import { isStricter, type KeyGrant, type StoredKey } from '../../domain/key/key-record.ts'
import {
  CHANGES_CHANNEL,
  decodeRecord,
  encodeRecord,
  KEPT_AFTER_EXPIRY_MS,
  RECORD_RANGE_END,
  recordKeyName,
} from '../../domain/wire.ts'
import type { AnnouncingRedis } from '../../redis/announcing-connection.ts'
import { isReplyError } from '../../redis/answering.ts'
import type { RecordKeys } from '../platform/capability.ts'
import { createMarkEntry, type MarkEntry } from './mark-entry.ts'
import type { HeldVersion, PendingChange } from './outbox-rows.ts'
import { type CounterReadings, readCounters } from './read-counters.ts'

/** A record to write, and what to publish once it is written. */
export interface Announcement {
  readonly key: StoredKey
  /** Encoded changes of the key. */
  readonly messages: readonly string[]
}

/** Publishes keys to gateways: through Redis, or within this process. */
export interface Announcer {
  start(): void
  stop(): Promise<void>
  /** `failed`: Redis answers with errors. `off`: none is configured; nothing is ever announced. */
  state(): 'ready' | 'down' | 'failed' | 'off'
  /** Whether what was announced before this call has reached the server that all others use, by what is known after it. */
  confirm(): Promise<boolean>
  /**
   * Called whenever announcing becomes possible: on the first connection, and again after each reconnection or
   * failover, since the new server may lack the latest writes.
   */
  onReady(listener: () => void): void
  /** Called when another console announces no more: nothing would find that what it announced last is lost. */
  onOtherSilent(listener: () => void): void
  /**
   * Writes each record for gateways to read, unless Redis holds a newer version, and then publishes its messages. Never rejects.
   * @returns the result of each, in their order
   */
  putAll(announcements: readonly Announcement[]): Promise<readonly PromiseSettledResult<void>[]>
  /** @param message an encoded heartbeat */
  publish(message: string): Promise<void>
  /** Null without a shared Redis. */
  readonly mark: MarkEntry | null
  /** Reads counters of rate limits. Never rejects. @param names all of this workspace */
  readCounters(workspaceId: string, names: readonly string[]): Promise<CounterReadings>
}

/**
 * For console and gateway in one process, such as the demo: there is no shared cache to write.
 * @param deliver receives the messages of the channel
 */
export function createInProcessAnnouncer(deliver: (message: string) => void): Announcer {
  return {
    start: () => {},
    stop: async () => {},
    state: () => 'ready',
    confirm: async () => true,
    onReady: () => {},
    onOtherSilent: () => {},
    putAll: announcements =>
      Promise.allSettled(announcements.map(async ({ messages }) => messages.forEach(deliver))),
    publish: async message => deliver(message),
    mark: null,
    readCounters: async () => 'off',
  }
}

/**
 * For a console without Redis. Changes stay in the outbox: a Redis configured later may hold older records, which
 * they must still reach.
 */
export function createDisabledAnnouncer(): Announcer {
  return { ...createInProcessAnnouncer(() => {}), state: () => 'off' }
}

/**
 * Writes records and publishes the messages of each. An entry that says that it is newer is returned instead, unless it is the
 * one that was found to have no valid MAC. The same version of this key with other bytes is replaced: the database is right, also about
 * fields outside the MAC. GETRANGE returns nothing for a missing key and fails for a key that holds no string, which is not ours.
 */
const WRITE_AND_PUBLISH = `
local channel, at, newer = ARGV[1], 2, {}
local function idIn(text) return string.match(text, '"id":"([%w_]+)"') end
for i, key in ipairs(KEYS) do
  local text, expires, version, unverified, messages = unpack(ARGV, at, at + 4)
  at = at + 5
  local held = redis.pcall('GETRANGE', key, 0, ${RECORD_RANGE_END})
  if type(held) == 'table' then held = '' end
  local heldVersion = held ~= text and tonumber(string.match(held, '"version":(%d+)'))
  local ahead = heldVersion and heldVersion - tonumber(version)
  if ahead and held ~= unverified and (ahead > 0 or ahead == 0 and idIn(held) ~= idIn(text)) then
    newer[i] = held
  else
    newer[i] = false
    if held ~= text then redis.call('SET', key, text, 'PXAT', expires) end
    for message = at, at + messages - 1 do redis.call('PUBLISH', channel, ARGV[message]) end
  end
  at = at + messages
end
return newer`

/** Each failed attempt is another writer's success; so many writers never meet over one key. */
const MAX_ATTEMPTS = 32
/** Records written concurrently, about 10 ms of a Redis; many more would delay heartbeats on the same connection. */
const MAX_AT_ONCE = 512
/** Of one command: about a millisecond of a Redis. */
const RECORDS_AT_ONCE = 64

interface RedisAnnouncerParts {
  readonly connection: AnnouncingRedis
  readonly region: string
  /** Read for each record: a reload may change it. */
  readonly recordKeys: RecordKeys
  /** Gives each key a version above the one that Redis holds, and announces it again. @returns digests of those that were behind */
  readonly outrank?: (held: readonly HeldVersion[]) => Promise<ReadonlySet<string>>
}

export function createRedisAnnouncer(parts: RedisAnnouncerParts): Announcer {
  const { connection } = parts
  const store = createRedisRecordStore(connection)
  return {
    // The connection reports failures by its own events, and reconnects.
    start: () => void connection.connect().catch(() => {}),
    stop: async () => connection.disconnect(),
    state: () => connection.status,
    confirm: () => connection.confirm(),
    onReady: listener => void connection.on('ready', listener),
    onOtherSilent: listener => void connection.on('otherSilent', listener),
    putAll: createGatheredPut(store, parts),
    publish: store.publish,
    mark: createMarkEntry(connection, parts.region),
    readCounters: (workspaceId, names) => readCounters(connection, workspaceId, names),
  }
}

/**
 * Changes that were committed together are announced together: those whose commit has just been confirmed come in the same turn of
 * the microtasks.
 */
function createGatheredPut(
  store: RecordStore,
  parts: Omit<RedisAnnouncerParts, 'connection'>,
): Announcer['putAll'] {
  let waiting: Announcement[] = []
  let run: ReturnType<Announcer['putAll']> | null = null
  const put = async () => {
    await null
    const together = waiting
    waiting = []
    run = null
    const results: PromiseSettledResult<void>[] = []
    for (let from = 0; from < together.length; from += MAX_AT_ONCE) {
      results.push(...(await writeRecords(store, together.slice(from, from + MAX_AT_ONCE), parts.recordKeys)))
    }
    const outranked = results.flatMap((result, index) =>
      result.status === 'rejected' && result.reason instanceof Outranked
        ? { index, held: result.reason.held }
        : [],
    )
    if (outranked.length === 0) return results
    // What the database does not take now is found again with the next attempt.
    const raised = await parts.outrank?.(outranked.map(({ held }) => held)).catch(() => null)
    if (raised === null) return results
    for (const { index, held } of outranked) {
      if (!held.isSameKey || raised?.has(held.digest) === true) continue
      // The database has that version by now: another console was faster.
      const published = (together[index]?.messages ?? []).map(store.publish)
      results[index] = (await Promise.allSettled(published)).find(isRejected) ?? DONE
    }
    return results
  }
  return async announcements => {
    const from = waiting.length
    waiting.push(...announcements)
    run ??= put()
    return (await run).slice(from, from + announcements.length)
  }
}

/** What Redis holds that says that it is newer; null if the record was written. */
type HeldEntry = Uint8Array | null

function createRedisRecordStore(connection: AnnouncingRedis): RecordStore {
  const publish = async (message: string) => {
    await connection.publish(CHANGES_CHANNEL, message)
  }
  const run = async (writes: readonly RecordWrite[]) => {
    const keys = writes.map(({ key }) => recordKeyName(key.digest))
    const values = writes.flatMap(({ key: { record }, text, messages, unverified }) => [
      ...[text, record.expiresAtMs + KEPT_AFTER_EXPIRY_MS, record.version, Buffer.from(unverified ?? [])],
      ...[messages.length, ...messages],
    ])
    const given = [keys.length, ...keys, CHANGES_CHANNEL, ...values]
    // The script returns the entries that say that they are newer, and null for the others.
    return (await connection.callBuffer('eval', WRITE_AND_PUBLISH, ...given)) as readonly HeldEntry[]
  }
  /** In a cluster one node publishes for all, and it need not hold the record; each node has its own records. */
  const runInCluster = async (write: RecordWrite) => {
    const [held = null] = await run([{ ...write, messages: [] }])
    if (held === null) for (const message of write.messages) await publish(message)
    return held
  }
  return {
    publish,
    async writeAll(writes) {
      if (!connection.isOneServer) return Promise.allSettled(writes.map(runInCluster))
      const outcomes: Promise<HeldEntry>[] = []
      for (let from = 0; from < writes.length; from += RECORDS_AT_ONCE) {
        const some = writes.slice(from, from + RECORDS_AT_ONCE)
        const held = run(some)
        outcomes.push(...some.map(async (_, index) => (await held)[index] ?? null))
      }
      return Promise.allSettled(outcomes)
    },
  }
}

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

export interface RecordWrite extends Announcement {
  /** The encoded record. */
  readonly text: string
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
  const results = announcements.map((): PromiseSettledResult<void> => GAVE_UP)
  let attempts: (RecordWrite & { readonly index: number })[] = []
  for (const [index, announcement] of announcements.entries()) {
    try {
      const text = encodeRecordOnce(announcement.key, recordKeys[0])
      attempts.push({ ...announcement, index, text, unverified: null })
    } catch (reason) {
      // A row of the database that no reader would take.
      results[index] = { status: 'rejected', reason }
    }
  }
  for (let round = 0; round < MAX_ATTEMPTS && attempts.length > 0; round++) {
    const outcomes = await store.writeAll(attempts)
    const again: typeof attempts = []
    const concluded = attempts.map(async (attempt, at) => {
      const outcome = outcomes[at] ?? GAVE_UP
      if (outcome.status === 'rejected') throw outcome.reason
      if (outcome.value === null) return
      const newer = findNewer(Buffer.from(outcome.value).toString(), attempt.key, recordKeys)
      if (newer !== null) {
        const isSameKey = newer.id === attempt.key.record.id
        if (!isSameKey || isStricter(attempt.key.record, newer)) {
          throw new Outranked({ digest: attempt.key.digest, version: newer.version, isSameKey })
        }
        for (const message of attempt.messages) await store.publish(message)
        return
      }
      again.push({ ...attempt, unverified: outcome.value })
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

const DONE: PromiseFulfilledResult<void> = { status: 'fulfilled', value: undefined }

const isRejected = (result: PromiseSettledResult<unknown>): result is PromiseRejectedResult =>
  result.status === 'rejected'

/**
 * The newer record is of a key with the same digest that the database has lost, such as one that is imported again after a restore, or
 * of a state of the key that the database has lost, and that would lift what restricts it now.
 */
class Outranked extends Error {
  readonly held: HeldVersion

  constructor(held: HeldVersion) {
    super('Redis holds a newer record of an earlier key, or an earlier state, of this digest')
    this.held = held
  }
}

/** Whether Redis did not answer, and may yet carry out the write. A record that cannot be encoded is a RangeError. */
export function isUnanswered(result: PromiseSettledResult<void> | undefined): boolean {
  if (result?.status !== 'rejected') return false
  const { reason } = result
  // Redis has answered each attempt with the entry that it holds.
  if (reason === GAVE_UP.reason) return false
  return !isReplyError(reason) && !(reason instanceof RangeError) && !(reason instanceof Outranked)
}

function findNewer(heldText: string, { digest, record }: StoredKey, recordKeys: RecordKeys): KeyGrant | null {
  const held = decodeRecord(heldText, digest, recordKeys)
  if (!held.ok) return null
  const { id, version } = held.grant
  return version > record.version || (version === record.version && id !== record.id) ? held.grant : null
}

const encodedRecords = new WeakMap<StoredKey, { readonly text: string; readonly recordKey: KeyObject }>()

/** As `encodeRecord`, once for the response to a lookup and the Redis of each region: most of that time is the signature. */
export function encodeRecordOnce(key: StoredKey, recordKey: KeyObject): string {
  const encoded = encodedRecords.get(key)
  if (encoded?.recordKey === recordKey) return encoded.text
  const text = encodeRecord(key.record, key.digest, recordKey)
  encodedRecords.set(key, { text, recordKey })
  return text
}

/** Encodes and signs the messages of this process to one region. */
export type MessageEncoder = ReturnType<typeof createMessageEncoder>

interface Sender {
  /** Identifies this run of this process, since its monotonic clock starts anew with each run. */
  readonly sender: string
  readonly region: string
  readonly clock: Clock
  /** Read for each message: a reload may change it. Null: messages are not signed. */
  readonly messageKey: () => KeyObject | null
}

export function createMessageEncoder({ sender, region, clock, messageKey }: Sender) {
  return {
    change: ({ digest, version, atMs }: PendingChange): string =>
      encodeMessage({ kind: 'change', region, sender, digest, version, atMs }, messageKey()),
    heartbeat(): string {
      const times = { monotonicMs: Math.floor(clock.monotonicMs()), atMs: clock.wallMs() }
      return encodeMessage({ kind: 'heartbeat', region, sender, ...times }, messageKey())
    },
  }
}
