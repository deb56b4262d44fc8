import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../../config/schema/schema.ts'
import { decodeRecord, RECORD_RANGE_END, recordKeyName } from '../../domain/wire.ts'
import { type ControlLogger, describeError } from '../../observability/control-logger.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import { type AnnouncingRedis, createRedisConnection } from '../../redis/announcing-connection.ts'
import { isReplyError } from '../../redis/answering.ts'
import { patientSettings } from '../../redis/options.ts'
import { importSecrets } from '../platform/console-context.ts'
import type { SeenEntry, SeenRecords } from './newer-records.ts'

const CONNECT_DEADLINE_MS = 10_000
/** Read concurrently. */
const AT_ONCE = 64

export class RedisUnreachable extends Error {}

/**
 * What the configured Redis, or those of all regions, hold about keys, with the rights of a console.
 * @throws RedisUnreachable
 */
export async function withSeenRecords<Result>(
  parts: { readonly config: Config; readonly metrics: Metrics; readonly logger: ControlLogger },
  use: (seen: SeenRecords) => Promise<Result>,
): Promise<Result> {
  const { recordKeys } = importSecrets(parts.config)
  const { regions, redis } = parts.config
  const places = regions.length > 0 ? regions : [{ name: null, redis }]
  const connections = places.map(({ name, redis: config }) => ({
    region: name,
    connection: createRedisConnection({ ...parts, config: patientSettings(config), onUp: () => {} }),
  }))
  const readFrom = async ({ region, connection }: RegionConnection, digest: string): Promise<SeenEntry> => {
    const bytes = await connection
      .getrangeBuffer(recordKeyName(digest), 0, RECORD_RANGE_END)
      .catch((error: unknown) => noRecord(error, region))
    const record = decodeRecord(bytes.toString(), digest, recordKeys)
    if (record.ok) return { region, grant: record.grant, isUnverified: false }
    return { region, grant: null, isUnverified: record.why !== 'malformed' }
  }
  const readAll = async (digest: string) =>
    [digest, await Promise.all(connections.map(connection => readFrom(connection, digest)))] as const
  try {
    await Promise.all(connections.map(untilReady))
    return await use({
      async read(digests) {
        const found = new Map<string, readonly SeenEntry[]>()
        for (let from = 0; from < digests.length; from += AT_ONCE) {
          const some = await Promise.all(digests.slice(from, from + AT_ONCE).map(readAll))
          for (const [digest, entries] of some) found.set(digest, entries)
        }
        return found
      },
    })
  } finally {
    for (const { connection } of connections) connection.disconnect()
  }
}

interface RegionConnection {
  /** Null if the settings name no regions. */
  readonly region: string | null
  readonly connection: AnnouncingRedis
}

async function untilReady({ region, connection }: RegionConnection): Promise<void> {
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
  if (!isReady) {
    throw new RedisUnreachable(`No answer from ${redisName(region)} within ${CONNECT_DEADLINE_MS / 1000} s`)
  }
}

function redisName(region: string | null): string {
  return region === null ? 'the configured Redis' : `the Redis of region ${region}`
}

/** An entry that is no string is not ours. @throws RedisUnreachable for any other answer: what Redis holds is unknown then */
function noRecord(error: unknown, region: string | null): Buffer {
  if (isReplyError(error) && error.message.startsWith('WRONGTYPE ')) return Buffer.alloc(0)
  throw new RedisUnreachable(`A record cannot be read from ${redisName(region)}: ${describeError(error)}`)
}
