import { CHANGES_CHANNEL, RECORD_RANGE_END, redisKeyOf } from '../../domain/wire.ts'
import { COMMAND_OUTCOMES, type Metrics } from '../../observability/metrics/metrics.ts'
import type { AnnouncingRedis } from '../../redis/announcing-connection.ts'
import { isReplyError } from '../../redis/answering.ts'
import type { RecordKeys } from '../platform/console-secrets.ts'
import type { Announcement, Announcer } from './announcer.ts'
import { type RecordStore, type RecordWrite, writeRecords } from './write-record.ts'

/**
 * Writes records and publishes the messages of each. An entry that says that it is newer is returned instead, unless it is the
 * one that was found to have no valid MAC. The same version with other bytes is replaced: the database is right, also about fields
 * outside the MAC. GETRANGE returns nothing for a missing key and fails for a key that holds no string, which is not ours.
 */
const WRITE_AND_PUBLISH = `
local channel, at, newer = ARGV[1], 2, {}
for i, key in ipairs(KEYS) do
  local text, expires, version, unverified, messages = unpack(ARGV, at, at + 4)
  at = at + 5
  local held = redis.pcall('GETRANGE', key, 0, ${RECORD_RANGE_END})
  if type(held) == 'table' then held = '' end
  local heldVersion = held ~= text and tonumber(string.match(held, '"version":(%d+)'))
  if heldVersion and heldVersion > tonumber(version) and held ~= unverified then
    newer[i] = held
  else
    newer[i] = false
    if held ~= text then redis.call('SET', key, text, 'PXAT', expires) end
    for message = at, at + messages - 1 do redis.call('PUBLISH', channel, ARGV[message]) end
  end
  at = at + messages
end
return newer`

/** Of one command: about a millisecond of a Redis. */
const RECORDS_AT_ONCE = 64

const COMMANDS = ['eval', 'publish'] as const

interface RedisAnnouncerParts {
  readonly connection: AnnouncingRedis
  readonly commandTimeoutMs: number
  /** Read for each record: a reload may change it. */
  readonly recordKeys: RecordKeys
  readonly metrics: Metrics
}

export function createRedisAnnouncer(parts: RedisAnnouncerParts): Announcer {
  const { connection, metrics } = parts
  for (const command of COMMANDS) startAtZero(metrics, command)
  const store = createRedisRecordStore(parts)
  return {
    // The connection reports failures by its own events, and reconnects.
    start: () => void connection.connect().catch(() => {}),
    stop: async () => connection.disconnect(),
    state: () => connection.status,
    confirm: () => connection.confirm(),
    onReady: listener => void connection.on('ready', listener),
    putAll: gathered(announcements => writeRecords(store, announcements, parts.recordKeys)),
    publish: store.publish,
  }
}

interface Gathered {
  readonly announcements: readonly Announcement[]
  readonly done: PromiseWithResolvers<readonly PromiseSettledResult<void>[]>
}

/**
 * Changes that were committed together are announced together: those whose commit has just been confirmed come in the same turn of
 * the microtasks.
 * @param putAll never rejects
 */
function gathered(putAll: Announcer['putAll']): Announcer['putAll'] {
  let waiting: Gathered[] = []
  const put = async () => {
    const all = waiting
    waiting = []
    const results = await putAll(all.flatMap(({ announcements }) => announcements))
    let at = 0
    for (const { announcements, done } of all) {
      done.resolve(results.slice(at, at + announcements.length))
      at += announcements.length
    }
  }
  return announcements => {
    const done = Promise.withResolvers<readonly PromiseSettledResult<void>[]>()
    if (waiting.push({ announcements, done }) === 1) queueMicrotask(() => void put())
    return done.promise
  }
}

function createRedisRecordStore(parts: RedisAnnouncerParts): RecordStore {
  const { connection } = parts
  const publish = async (message: string) => {
    await measured(parts, 'publish', () => connection.publish(CHANGES_CHANNEL, message))
  }
  /** @returns the entries that say that they are newer, null for the others */
  const run = async (writes: readonly RecordWrite[]): Promise<readonly (Uint8Array | null)[]> => {
    const keys = writes.map(({ digest }) => redisKeyOf(digest))
    const values = writes.flatMap(valuesOf)
    const send = () =>
      connection.callBuffer('eval', WRITE_AND_PUBLISH, keys.length, ...keys, CHANGES_CHANNEL, ...values)
    // The script returns a list of bytes and nulls.
    return (await measured(parts, 'eval', send)) as readonly (Uint8Array | null)[]
  }
  const runSettled = async (writes: readonly RecordWrite[]) => {
    const [outcome = NOT_RUN] = await Promise.allSettled([run(writes)])
    return writes.map((_, index) =>
      outcome.status === 'rejected' ? outcome : { ...outcome, value: outcome.value[index] ?? null },
    )
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
      const starts = Array.from(
        { length: Math.ceil(writes.length / RECORDS_AT_ONCE) },
        (_, at) => at * RECORDS_AT_ONCE,
      )
      return (await Promise.all(starts.map(at => runSettled(writes.slice(at, at + RECORDS_AT_ONCE))))).flat()
    },
  }
}

const NOT_RUN: PromiseRejectedResult = { status: 'rejected', reason: new Error('Nothing was sent') }

function valuesOf({
  text,
  expiresAtMs,
  version,
  unverified,
  messages,
}: RecordWrite): (string | number | Buffer)[] {
  return [text, expiresAtMs, version, Buffer.from(unverified ?? []), messages.length, ...messages]
}

async function measured<Reply>(
  { metrics, connection, commandTimeoutMs }: RedisAnnouncerParts,
  command: (typeof COMMANDS)[number],
  send: () => Promise<Reply>,
): Promise<Reply> {
  const startedAtMs = performance.now()
  const elapsedMs = () => performance.now() - startedAtMs
  const count = (outcome: (typeof COMMAND_OUTCOMES)[number]) => {
    metrics.redisCommands.inc({ command, outcome })
    metrics.redisCommandDuration.handle({ command }).observe(elapsedMs() / 1000)
  }
  try {
    const reply = await send()
    count('ok')
    return reply
  } catch (error) {
    if (isReplyError(error)) count('error')
    else if (connection.status !== 'ready') count('unavailable')
    else count(elapsedMs() >= commandTimeoutMs ? 'timeout' : 'error')
    throw error
  }
}

/** At zero from the start, so that an alert on a rate fires on the first failure. */
function startAtZero({ redisCommands, redisCommandDuration }: Metrics, command: string): void {
  for (const outcome of COMMAND_OUTCOMES) redisCommands.inc({ command, outcome }, 0)
  redisCommandDuration.handle({ command })
}
