import { sql } from 'kysely'
import { Pool } from 'undici'
import type { Database } from '../../../src/console/platform/database/database.ts'
import { openDatabase } from '../../support/open-database.ts'
import { Parts } from '../../support/parts.ts'
import type { Listening } from '../../support/postern-process.ts'
import { PostgresServer } from '../../support/postgres-server.ts'
import type { RedisServer } from '../../support/redis-server.ts'
import { until } from '../../support/until.ts'
import { fillKeys } from './fill-keys.ts'

/** As on a server of its own: it syncs the disk, and its caches hold what is asked often. */
const POSTGRES_SETTINGS = { fsync: 'on', shared_buffers: '512MB', max_wal_size: '4GB' }
/** What the chart gives a console: half of its memory limit of 384 MiB. */
const CONSOLE_HEAP = '--max-old-space-size=192'
const ADMIN_CONNECTIONS = 256
const ANNOUNCED_WITHIN_MS = 120_000

/** A connection of PostgreSQL adds what it did to the statistics after about a second, if it is busy. */
const STATISTICS_LAG_MS = 1_100

export interface StoredKeyName {
  readonly id: string
  readonly digest: string
  readonly workspaceId: string
}

export interface ScaleRegion {
  readonly name: string
  readonly redis: RedisServer
}

/** Changes that are not announced to every region yet. */
export async function countPending({ reader }: Database): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select (select count(*) from outbox)
      + (select count(*) from regions where requeued_until is not null) as count`.execute(reader)
  return rows[0]?.count ?? 0
}

export interface WorldSize {
  readonly regions: number
  /** To be written; a third are active. */
  readonly keys: number
  /** 0 where no figures are wanted. */
  readonly statisticsLagMs?: number
}

/** A console as a process, over a real PostgreSQL and a real Redis for each region. */
export class ScaleWorld {
  readonly database: Database
  readonly regions: readonly ScaleRegion[]
  readonly console: Listening
  /** That gateways share with the console. */
  readonly shared: Readonly<Record<string, string>>
  /** Before the figures of PostgreSQL are read. */
  readonly statisticsLagMs: number
  readonly #parts: Parts
  readonly #admin: Pool

  private constructor(
    parts: Parts,
    world: Pick<ScaleWorld, 'database' | 'regions' | 'console' | 'statisticsLagMs'>,
  ) {
    this.database = world.database
    this.regions = world.regions
    this.console = world.console
    this.shared = parts.shared
    this.statisticsLagMs = world.statisticsLagMs
    this.#parts = parts
    this.#admin = new Pool(world.console.urls.console, { connections: ADMIN_CONNECTIONS })
  }

  static start({
    regions: count,
    keys,
    statisticsLagMs = STATISTICS_LAG_MS,
  }: WorldSize): Promise<ScaleWorld> {
    return Parts.start(async parts => {
      const postgres = await parts.own(await PostgresServer.started(POSTGRES_SETTINGS))
      const databaseUrl = await postgres.database()
      const population = { keys, workspaces: 500, inLargest: keys / 10, nowMs: Date.now(), changed: false }
      await fillKeys(databaseUrl, population)
      const regions = await Parts.several(count, async at => ({
        name: `region-${at + 1}`,
        redis: await parts.redis({ settings: ['--maxclients', '4000'] }),
      }))
      const announced = regions.map(({ name, redis }) => ({ name, redis: { url: redis.url } }))
      const console = await parts.console({
        POSTERN_DATABASE_URL: databaseUrl,
        POSTERN_REGIONS: JSON.stringify(announced),
        POSTERN_LOG_LEVEL: 'warn',
        NODE_OPTIONS: CONSOLE_HEAP,
      })
      const database = await openDatabase(databaseUrl)
      await parts.own({ stop: () => database.close() })
      const world = new ScaleWorld(parts, { database, regions, console, statisticsLagMs })
      await parts.own({ stop: () => world.#admin.destroy() })
      await world.untilAnnounced()
      return world
    })
  }

  /** Waits until no change is in an outbox: a region that is new gets those of all keys. */
  async untilAnnounced(): Promise<void> {
    const pending = () => countPending(this.database)
    await until('every change is announced', async () => (await pending()) === 0, ANNOUNCED_WITHIN_MS)
  }

  /** Keys that can be used and changed, in random order. */
  async activeKeys(count: number): Promise<StoredKeyName[]> {
    const rows = await this.database.reader
      .selectFrom('keys')
      .select(['id', 'digest', 'workspace_id'])
      .where('revoked_at_ms', 'is', null)
      .where('suspended_at_ms', 'is', null)
      .where('replaced_by', 'is', null)
      .where('expires_at_ms', '>', Date.now() + 3_600_000)
      .orderBy('digest')
      .limit(count)
      .execute()
    if (rows.length < count) throw new Error(`Only ${rows.length} of ${count} keys are active`)
    return rows.map(({ id, digest, workspace_id }) => ({ id, digest, workspaceId: workspace_id }))
  }

  /** @throws unless the console answers with success */
  async admin<Answer>(method: 'GET' | 'POST' | 'PATCH', path: string, body?: object): Promise<Answer> {
    const response = await this.#admin.request({
      method,
      path: `/admin/v1${path}`,
      headers: {
        authorization: `Bearer ${this.#parts.adminToken}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.body.text()
    if (response.statusCode > 299) throw new Error(`The console answered ${response.statusCode}: ${text}`)
    // The tests of the admin API check its form.
    return JSON.parse(text) as Answer
  }

  async stop(): Promise<void> {
    await this.#parts.stop()
  }
}
