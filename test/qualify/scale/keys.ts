import { randomBytes } from 'node:crypto'
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import type { AuditedDatabase } from '../../../src/console/platform/audit/mac.ts'
import { openDatabase } from '../../support/open-database.ts'
import { Parts } from '../../support/parts.ts'
import type { RedisServer } from '../../support/redis-server.ts'
import { createRepository } from '../../support/repository.ts'
import { describeTimes, say } from './readings.ts'

const LOOKUPS = 2_000
const BATCHES = 50
const BATCH = 256
const ISSUED = 200
const SYNC_SECONDS = 30
const REQUEUE_SECONDS = 20

/** A console over millions of keys: `test/bench/search.ts` times lists and searches over the same database. */
export async function measureKeys(databaseUrl: string): Promise<void> {
  const parts = new Parts()
  try {
    const redis = await parts.redis()
    const database = await openDatabase(databaseUrl)
    await parts.own({ stop: () => database.close() })
    await describeSize(database)
    await timeLookups(database)
    await timeConsole(parts, databaseUrl, redis)
    await timeNewRegion(parts, databaseUrl, redis, database)
    say(`load average ${loadavg()[0]?.toFixed(1)}`)
  } finally {
    await parts.stop()
  }
}

async function describeSize({ reader }: AuditedDatabase): Promise<void> {
  const { rows } = await sql<{
    keys: number
    database: number
    table: number
    indexes: number
    uses: number
  }>`
    select (select reltuples::bigint from pg_class where relname = 'keys') as keys,
      pg_database_size(current_database()) as database, pg_table_size('keys') as table,
      pg_indexes_size('keys') as indexes, pg_total_relation_size('key_use') as uses`.execute(reader)
  const [row] = rows
  const gigabytes = (bytes: number | undefined) => `${((bytes ?? 0) / 1e9).toFixed(1)} GB`
  say(`${row?.keys} keys: ${gigabytes(row?.database)}, of it keys ${gigabytes(row?.table)},`)
  say(`  their indexes ${gigabytes(row?.indexes)}, last uses ${gigabytes(row?.uses)}`)
}

async function timeLookups(database: AuditedDatabase): Promise<void> {
  const clock = { wallMs: () => Date.now(), monotonicMs: () => performance.now() }
  const repository = createRepository(database, clock, 'scale')
  const { rows } = await sql<{ digest: string }>`
    select digest from keys tablesample system (1) order by random()
    limit ${LOOKUPS + BATCHES * BATCH}`.execute(database.reader)
  const digests = rows.map(row => row.digest)
  const singly = await timesOf(LOOKUPS, at => repository.findByDigest(digests[at] ?? ''))
  say(`a lookup by digest: ${describeTimes(singly)}`)
  const batchOf = (at: number) => digests.slice(LOOKUPS + at * BATCH, LOOKUPS + (at + 1) * BATCH)
  const batches = await timesOf(BATCHES, at => repository.findByDigests(batchOf(at)))
  say(`a lookup of ${BATCH} at once: ${describeTimes(batches)}`)
}

async function timesOf(times: number, work: (at: number) => Promise<unknown>): Promise<number[]> {
  const tookMs: number[] = []
  for (let at = 0; at < times; at++) {
    const startedMs = performance.now()
    await work(at)
    tookMs.push(performance.now() - startedMs)
  }
  return tookMs
}

async function timeConsole(parts: Parts, databaseUrl: string, redis: RedisServer): Promise<void> {
  const startedMs = performance.now()
  const console = await parts.console({
    POSTERN_DATABASE_URL: databaseUrl,
    POSTERN_LOG_LEVEL: 'warn',
    POSTERN_REDIS_URL: redis.url,
  })
  say(`the console listens after ${((performance.now() - startedMs) / 1000).toFixed(1)} s`)
  // The tests of the admin API check its form.
  const post = async <Answer>(path: string, body: object) =>
    (await parts.change(console, path, body)) as Answer
  try {
    const body = { name: 'scale', scopes: ['files:read'] }
    const issued = await timesOf(ISSUED, at => post(`/workspaces/ws_${at}/keys`, body))
    say(`a key is issued: ${describeTimes(issued)}`)
    let cursor: string | undefined
    let [synced, total] = [0, 0]
    const beganMs = performance.now()
    let syncedFromMs = beganMs
    do {
      const page = await post<{ synced: number; total?: number; cursor?: string }>('/sync', { cursor })
      // Keys that expired long ago are passed over first.
      if (synced === 0) syncedFromMs = performance.now()
      synced += page.synced
      total = page.total ?? 0
      cursor = page.cursor
    } while (cursor !== undefined && (synced === 0 || performance.now() - syncedFromMs < SYNC_SECONDS * 1000))
    say(`keys sync: the first record after ${((syncedFromMs - beganMs) / 1000).toFixed(0)} s`)
    const rate = synced / ((performance.now() - syncedFromMs) / 1000)
    say(
      `keys sync: ${rate.toFixed(0)} keys a second, so ${(total / rate / 60).toFixed(0)} minutes for ${total} (0: too many to count)`,
    )
  } finally {
    await console.process.stop()
  }
}

/** A region that is added gets every change of the keys that exist, and no heartbeat before. */
async function timeNewRegion(
  parts: Parts,
  databaseUrl: string,
  redis: RedisServer,
  database: AuditedDatabase,
): Promise<void> {
  const region = `region-${randomBytes(3).toString('hex')}`
  const { process } = await parts.console({
    POSTERN_DATABASE_URL: databaseUrl,
    POSTERN_LOG_LEVEL: 'warn',
    POSTERN_REGIONS: JSON.stringify([{ name: region, redis: { url: redis.url } }]),
  })
  try {
    const startedMs = performance.now()
    await sleep(REQUEUE_SECONDS * 1000)
    const { rows } = await sql<{ done: number; all: number }>`
      select (select count(*) from keys where id <= coalesce(requeued_until, 'z')) as done,
        (select reltuples::bigint from pg_class where relname = 'keys') as all
      from regions where name = ${region}`.execute(database.reader)
    const [{ done = 0, all = 0 } = {}] = rows
    const rate = done / ((performance.now() - startedMs) / 1000)
    say(
      `a region is added: ${rate.toFixed(0)} keys a second, so ${(all / rate / 60).toFixed(1)} minutes for all`,
    )
  } finally {
    await process.stop()
    await database.writer.deleteFrom('regions').where('name', '=', region).execute()
    await sql`truncate outbox`.execute(database.writer)
  }
}
