import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../../../config/schema/schema.ts'
import type { KeyGrant } from '../../../domain/key/key-record.ts'
import { decodeRecord, RECORD_RANGE_END, redisKeyOf } from '../../../domain/wire.ts'
import type { ControlLogger } from '../../../observability/control-logger.ts'
import type { Metrics } from '../../../observability/metrics/metrics.ts'
import { type AnnouncingRedis, createRedisConnection } from '../../../redis/announcing-connection.ts'
import { isReplyError } from '../../../redis/reply-error.ts'
import { importSecrets } from '../../console-secrets.ts'
import type { SeenRecords } from '../database/backup/newer-records.ts'

const CONNECT_DEADLINE_MS = 10_000
/** Read concurrently. */
const AT_ONCE = 64

export class RedisUnreachable extends Error {}

/**
 * The newest record of each key in the configured Redis, or in those of all regions, with the rights of a console.
 * @throws RedisUnreachable
 */
export async function withSeenRecords<Result>(
  parts: { readonly config: Config; readonly metrics: Metrics; readonly logger: ControlLogger },
  use: (seen: SeenRecords) => Promise<Result>,
): Promise<Result> {
  const { recordKeys } = importSecrets(parts.config)
  const { regions, redis } = parts.config
  const connections = (regions.length > 0 ? regions : [{ redis }]).map(region =>
    createRedisConnection({ ...parts, config: region.redis, onUp: () => {} }),
  )
  const readFrom = async (connection: AnnouncingRedis, digest: string): Promise<KeyGrant[]> => {
    const bytes = await connection.getrangeBuffer(redisKeyOf(digest), 0, RECORD_RANGE_END).catch(noRecord)
    const record = decodeRecord(bytes.toString(), digest, recordKeys)
    return record.ok ? [record.grant] : []
  }
  const readNewest = async (digest: string) => {
    const found = await Promise.all(connections.map(connection => readFrom(connection, digest)))
    return [digest, found.flat().toSorted((a, b) => b.version - a.version)[0]] as const
  }
  try {
    await Promise.all(connections.map(untilReady))
    return await use({
      async read(digests) {
        const newest = new Map<string, KeyGrant>()
        for (let from = 0; from < digests.length; from += AT_ONCE) {
          const some = await Promise.all(digests.slice(from, from + AT_ONCE).map(readNewest))
          for (const [digest, grant] of some) if (grant !== undefined) newest.set(digest, grant)
        }
        return newest
      },
    })
  } finally {
    for (const connection of connections) connection.disconnect()
  }
}

async function untilReady(connection: AnnouncingRedis): Promise<void> {
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
  if (!isReady)
    throw new RedisUnreachable(`No connection to the configured Redis within ${CONNECT_DEADLINE_MS / 1000} s`)
}

/** An entry that is no string is not ours. */
function noRecord(error: unknown): Buffer {
  if (isReplyError(error) && error.message.startsWith('WRONGTYPE ')) return Buffer.alloc(0)
  throw error
}
