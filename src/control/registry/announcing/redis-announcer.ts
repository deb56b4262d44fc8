import { CHANGES_CHANNEL, RECORD_RANGE_END, redisKeyOf } from '../../../domain/wire.ts'
import { COMMAND_OUTCOMES, type Metrics } from '../../../observability/metrics/metrics.ts'
import type { AnnouncingRedis } from '../../../redis/announcing-connection.ts'
import { isReplyError } from '../../../redis/reply-error.ts'
import type { Announcer } from './announcer.ts'
import { type RecordKeys, type RecordStore, writeRecord, writeRecords } from './write-record.ts'

/**
 * Writes a record and publishes messages. An entry that says that it is newer is returned instead, unless it is the one
 * that was found to have no valid MAC. The same version with other bytes is replaced: the database is right, also about fields
 * outside the MAC. GETRANGE returns nothing for a missing key and fails for a key that holds no string, which is not ours.
 */
const WRITE_AND_PUBLISH = `
local text, expires, version, unverified, channel = unpack(ARGV)
local held = redis.pcall('GETRANGE', KEYS[1], 0, ${RECORD_RANGE_END})
if type(held) == 'table' then held = '' end
if held ~= text then
  local heldVersion = tonumber(string.match(held, '"version":(%d+)'))
  if heldVersion and heldVersion > tonumber(version) and held ~= unverified then return held end
  redis.call('SET', KEYS[1], text, 'PXAT', expires)
end
for i = 6, #ARGV do redis.call('PUBLISH', channel, ARGV[i]) end
return false`

const COMMANDS = ['eval', 'publish'] as const

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
    put: announcement => writeRecord(store, announcement, parts.recordKeys),
    putAll: announcements => writeRecords(store, announcements, parts.recordKeys),
    publish: store.publish,
  }
}

function createRedisRecordStore(parts: RedisAnnouncerParts): RecordStore {
  const { connection } = parts
  const publish = async (message: string) => {
    await measured(parts, 'publish', () => connection.publish(CHANGES_CHANNEL, message))
  }
  return {
    publish,
    async write(digest, { text, version, expiresAtMs, messages }, unverified) {
      // In a cluster one node publishes for all, and it need not hold the record.
      const [within, after] = connection.isOneServer ? [messages, []] : [[], messages]
      const values = [text, expiresAtMs, version, Buffer.from(unverified ?? []), CHANGES_CHANNEL, ...within]
      const run = () => connection.callBuffer('eval', WRITE_AND_PUBLISH, 1, redisKeyOf(digest), ...values)
      const held = await measured(parts, 'eval', run)
      // The script returns bytes or nothing.
      if (held !== null) return held as Buffer
      for (const message of after) await publish(message)
      return null
    },
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
