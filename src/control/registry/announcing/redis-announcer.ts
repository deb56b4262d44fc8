import { CHANGES_CHANNEL, RECORD_RANGE_END, redisKeyOf } from '../../../domain/wire.ts'
import { COMMAND_OUTCOMES, type Metrics } from '../../../observability/metrics/metrics.ts'
import type { AnnouncingRedis } from '../../../redis/announcing-connection.ts'
import { isReplyError } from '../../../redis/reply-error.ts'
import type { Announcer } from './announcer.ts'
import { type RecordKeys, type RecordStore, writeRecord, writeRecords } from './write-record.ts'

/** GETRANGE returns nothing for a missing key and fails for a key that holds no string, which is not ours. */
const COMPARE_AND_SET = `
local held = redis.pcall('GETRANGE', KEYS[1], 0, ${RECORD_RANGE_END})
if type(held) == 'table' then held = '' end
if held ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PXAT', ARGV[3])
return 1`

const COMMANDS = ['getrange', 'eval', 'publish'] as const

export interface RedisAnnouncerParts {
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
    state: () => (connection.status === 'ready' ? 'ready' : 'down'),
    onReady: listener => void connection.on('ready', listener),
    put: key => writeRecord(store, key, parts.recordKeys),
    putAll: keys => writeRecords(store, keys, parts.recordKeys),
    publish: async message => {
      await measured(parts, 'publish', () => connection.publish(CHANGES_CHANNEL, message))
    },
  }
}

function createRedisRecordStore(parts: RedisAnnouncerParts): RecordStore {
  const { connection } = parts
  return {
    read: digest => measured(parts, 'getrange', () => readText(connection, redisKeyOf(digest))),
    compareAndSet: async (digest, expected, { text, expiresAtMs }) => {
      const values = [Buffer.from(expected), text, expiresAtMs]
      const set = () => connection.eval(COMPARE_AND_SET, 1, redisKeyOf(digest), ...values)
      return (await measured(parts, 'eval', set)) === 1
    },
  }
}

async function readText(connection: AnnouncingRedis, key: string): Promise<Uint8Array> {
  try {
    return await connection.getrangeBuffer(key, 0, RECORD_RANGE_END)
  } catch (error) {
    // The first word of a Redis error is its code, which is part of the protocol.
    if (isReplyError(error) && error.message.startsWith('WRONGTYPE ')) return new Uint8Array()
    throw error
  }
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
