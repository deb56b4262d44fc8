import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../../../config/schema/schema.ts'
import type { KeyGrant } from '../../../domain/key/key-record.ts'
import { decodeRecord, RECORD_RANGE_END, redisKeyOf } from '../../../domain/wire.ts'
import type { ControlLogger } from '../../../observability/control-logger.ts'
import type { Metrics } from '../../../observability/metrics/metrics.ts'
import { createRedisConnection } from '../../../redis/announcing-connection.ts'
import { isReplyError } from '../../../redis/reply-error.ts'
import { importSecrets } from '../../console-secrets.ts'
import type { SeenRecords } from '../database/backup/newer-records.ts'

const CONNECT_DEADLINE_MS = 10_000
/** Read concurrently. */
const AT_ONCE = 64

export class RedisUnreachable extends Error {}

/**
 * Records in the configured Redis, with the rights of a console.
 * @throws RedisUnreachable
 */
export async function withSeenRecords<Result>(
  parts: { readonly config: Config; readonly metrics: Metrics; readonly logger: ControlLogger },
  use: (seen: SeenRecords) => Promise<Result>,
): Promise<Result> {
  const { recordKeys } = importSecrets(parts.config)
  const connection = createRedisConnection({ ...parts, config: parts.config.redis })
  const read = async (digest: string): Promise<readonly [string, KeyGrant] | null> => {
    const bytes = await connection.getrangeBuffer(redisKeyOf(digest), 0, RECORD_RANGE_END).catch(noRecord)
    const record = decodeRecord(bytes.toString(), digest, recordKeys)
    return record.ok ? [digest, record.grant] : null
  }
  try {
    await untilReady(connection)
    return await use({
      async read(digests) {
        const found = new Map<string, KeyGrant>()
        for (let from = 0; from < digests.length; from += AT_ONCE) {
          const some = await Promise.all(digests.slice(from, from + AT_ONCE).map(read))
          for (const entry of some) if (entry !== null) found.set(...entry)
        }
        return found
      },
    })
  } finally {
    connection.disconnect()
  }
}

async function untilReady(connection: ReturnType<typeof createRedisConnection>): Promise<void> {
  const ready = Promise.withResolvers<true>()
  connection.on('ready', () => ready.resolve(true))
  // The connection reports failures by its own events, and reconnects.
  connection.connect().catch(() => {})
  const late = new AbortController()
  const isReady = await Promise.race([
    ready.promise,
    sleep(CONNECT_DEADLINE_MS, false, { signal: late.signal }).catch(() => false),
  ])
  late.abort()
  if (!isReady) throw new RedisUnreachable(`redis.url: no connection within ${CONNECT_DEADLINE_MS / 1000} s`)
}

/** An entry that is no string is not ours. */
function noRecord(error: unknown): Buffer {
  if (isReplyError(error) && error.message.startsWith('WRONGTYPE ')) return Buffer.alloc(0)
  throw error
}
