import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import pino from 'pino'
import { loadConfig } from '../../src/config/load-config.ts'
import { createConsole } from '../../src/console/app.ts'
import type { Database } from '../../src/console/platform/database/database.ts'
import { createUsageQueries, lastPoints, type UsageCounts } from '../../src/console/usage/read-usage.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { openDatabase } from '../support/open-database.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { UNWATCHED_PARTS } from '../support/unwatched-parts.ts'
import { postmasterOf, treeTimeUs } from './processor-time.ts'
import { seedKeys } from './seed-keys.ts'

/**
 * Counts and refusals at the console. `node test/bench/usage.ts reports` measures what reports of many gateways cost;
 * `node test/bench/usage.ts year sqlite:FILE` (or `postgres://…`) the time of questions to a year of counts and its size,
 * with `--fill` the first time, on an empty database.
 */
const GATEWAYS = 1000
const KEYS = 10_000
const KEYS_PER_REPORT = 50
const REPORT_EVERY_MS = 10_000
const SECONDS = 30
const TOKEN = 'key-service-token-of-the-bench'
const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000

const say = (line: string) => process.stdout.write(`${line}\n`)
const [mode, url, option, filled = KEYS] = process.argv.slice(2)
if (mode === 'reports') await measureReports()
else if (mode === 'year' && url !== undefined) await measureYear(url)
else say('usage: node test/bench/usage.ts reports | year <database URL> [--fill [keys]]')

async function measureReports(): Promise<void> {
  const server = await PostgresServer.started()
  const databaseUrl = await server.database()
  const nowMs = Date.now()
  await withDatabase(databaseUrl, database =>
    seedKeys(database, { keys: KEYS, workspaces: 500, inLargest: 500, nowMs }),
  )
  const ids = await withDatabase(databaseUrl, async ({ reader }) => {
    const rows = await reader.selectFrom('keys').select('id').execute()
    return rows.map(row => row.id)
  })
  const loaded = loadConfig({
    environment: {
      POSTERN_DATABASE_URL: databaseUrl,
      POSTERN_KEY_SERVICE_TOKEN: TOKEN,
      POSTERN_KEYS_SIGNING_SECRETS: randomBytes(32).toString('base64'),
    },
    planes: ['console'],
  })
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems))
  const clock = { wallMs: () => Date.now(), monotonicMs: () => performance.now() }
  const logger = pino({ level: 'warn' })
  const parts = { config: loaded.config, metrics: createMetrics(), logger, clock, randomBytes }
  const console = await createConsole({ ...UNWATCHED_PARTS, ...parts })
  console.start()
  const postmaster = await withDatabase(databaseUrl, ({ reader }) => postmasterOf(reader))
  const before = treeTimeUs(postmaster)
  const { waitsMs, usedMs, seconds } = await sendReports(console.internal, ids)
  const databaseMs = (treeTimeUs(postmaster) - before) / 1000
  const sorted = waitsMs.toSorted((a, b) => a - b)
  const at = (share: number) => (sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(0)
  say(
    `${GATEWAYS} gateways, a report of ${KEYS_PER_REPORT} keys each every 10 s, for ${seconds.toFixed(0)} s:`,
  )
  say(
    `${((usedMs / 1000 / seconds) * 100).toFixed(1)} % of a core at the console, reports made here included`,
  )
  say(`${((databaseMs / 1000 / seconds) * 100).toFixed(1)} % of a core at PostgreSQL`)
  say(`${sorted.length} acknowledged after ${at(0.5)} ms (median), ${at(0.99)} ms (p99)`)
  await console.stop()
  await server.stop()
}

async function sendReports(
  internal: Awaited<ReturnType<typeof createConsole>>['internal'],
  ids: readonly string[],
): Promise<{ waitsMs: number[]; usedMs: number; seconds: number }> {
  const waitsMs: number[] = []
  const sending: Promise<void>[] = []
  const send = async (gateway: number, sequence: number) => {
    const body = bodyOf(`gateway-${gateway}`, sequence, ids)
    const startedMs = performance.now()
    const response = await internal.inject({
      method: 'POST',
      url: '/internal/v1/usage',
      headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
      payload: body,
    })
    if (response.statusCode !== 200) throw new Error(`${response.statusCode} ${response.payload}`)
    waitsMs.push(performance.now() - startedMs)
  }
  const [startedMs, cpu] = [performance.now(), process.cpuUsage()]
  const tick = REPORT_EVERY_MS / GATEWAYS
  for (let index = 0; performance.now() - startedMs < SECONDS * 1000; index++) {
    sending.push(send(index % GATEWAYS, 1 + Math.floor(index / GATEWAYS)))
    const aheadMs = (index + 1) * tick - (performance.now() - startedMs)
    if (aheadMs > 0) await new Promise(resolve => setTimeout(resolve, aheadMs))
  }
  await Promise.all(sending)
  const { user, system } = process.cpuUsage(cpu)
  return { waitsMs, usedMs: (user + system) / 1000, seconds: (performance.now() - startedMs) / 1000 }
}

function bodyOf(gateway: string, sequence: number, ids: readonly string[]): string {
  const nowMs = Date.now()
  const keyIds = Array.from(
    { length: KEYS_PER_REPORT },
    () => ids[Math.floor(Math.random() * ids.length)] ?? '',
  )
  const minute = Math.floor(nowMs / 60_000)
  return JSON.stringify({
    gateway,
    sequence,
    used: Object.fromEntries(keyIds.map(id => [id, nowMs])),
    counts: keyIds.map(keyId => ({ keyId, route: 'files', code: 'ok', minute, count: 7 })),
    refusals: [],
  })
}

/** A year of days and two weeks of hours: each key is used on two routes, with one code beside `ok`, in every hour. */
async function measureYear(databaseUrl: string): Promise<void> {
  const nowMs = Date.now()
  await withDatabase(databaseUrl, async database => {
    if (option === '--fill') {
      await seedKeys(database, {
        keys: Number(filled),
        workspaces: 100,
        inLargest: Number(filled) / 10,
        nowMs,
      })
      await fillYear(database, nowMs)
    }
    for (const table of ['usage_hours', 'usage_days']) say(await sizeOf(database, table))
    await timeQuestions(database, nowMs)
  })
}

async function fillYear(database: Database, nowMs: number): Promise<void> {
  const { writer, dialect } = database
  const kinds = sql`(select 'files' as route, 'ok' as code union all select 'workspace', 'ok'
    union all select 'files', 'rate_limited') as kinds`
  const fill = async (table: string, from: number, until: number) => {
    if (dialect === 'postgres') {
      await sql`create table ${sql.table(`${table}_filled_${from}`)} partition of ${sql.table(table)}
        for values from (${sql.lit(from)}) to (${sql.lit(until)}) with (fillfactor = 80)`.execute(writer)
    }
    for (let bucket = from; bucket < until; bucket++) {
      await sql`insert into ${sql.table(table)} (workspace_id, key_id, bucket, route, code, count)
        select workspace_id, id, ${sql.lit(bucket)}, route, code, 1000 from keys cross join ${kinds}
        union all select workspace_id, '', ${sql.lit(bucket)}, route, code, 100000
        from (select distinct workspace_id from keys) as workspaces cross join ${kinds}`.execute(writer)
    }
  }
  const [today, hour] = [Math.floor(nowMs / DAY_MS), Math.floor(nowMs / HOUR_MS)]
  for (let day = today - 364; day <= today; day += 30) {
    await fill('usage_days', day, Math.min(day + 30, today + 1))
  }
  for (let from = hour - 14 * 24 + 1; from <= hour; from += 24) await fill('usage_hours', from, from + 24)
  // One by one: the console gives a statement five seconds.
  if (dialect === 'postgres')
    for (const name of await partitionsOf(database)) await sql`analyze ${sql.table(name)}`.execute(writer)
}

async function partitionsOf({ reader }: Database): Promise<string[]> {
  const { rows } = await sql<{
    name: string
  }>`select relname as name from pg_inherits join pg_class on oid = inhrelid
    where inhparent in ('usage_hours'::regclass, 'usage_days'::regclass)`.execute(reader)
  return rows.map(row => row.name)
}

async function sizeOf({ reader, dialect }: Database, table: string): Promise<string> {
  const size =
    dialect === 'postgres'
      ? sql<{ rows: number; bytes: number }>`
          select cast(sum(reltuples) as bigint) as rows, cast(sum(pg_total_relation_size(oid)) as bigint) as bytes
          from pg_inherits join pg_class on oid = inhrelid where inhparent = ${table}::regclass`
      : sql<{ rows: number; bytes: number }>`
          select (select count(*) from ${sql.table(table)}) as rows, page_count * page_size as bytes
          from pragma_page_count(), pragma_page_size()`
  const { rows } = await size.execute(reader)
  const file = dialect === 'postgres' ? '' : ' in the file'
  return `${table}: ${rows[0]?.rows} rows, ${((rows[0]?.bytes ?? 0) / 1e9).toFixed(2)} GB${file}`
}

async function timeQuestions(database: Database, nowMs: number): Promise<void> {
  const clock = { wallMs: () => nowMs, monotonicMs: () => performance.now() }
  const queries = createUsageQueries(database, clock)
  const { rows } = await sql<{ id: string }>`
    select id from keys where workspace_id = 'ws_large' limit 1`.execute(database.reader)
  const key = { workspaceId: 'ws_large', id: rows[0]?.id ?? '' }
  const [day, fortnight, year] = [
    lastPoints('hour', 24, nowMs),
    lastPoints('hour', 336, nowMs),
    lastPoints('day', 365, nowMs),
  ]
  const questions: readonly (readonly [string, () => Promise<readonly unknown[] | UsageCounts>])[] = [
    ['a key, an hour by five minutes', () => queries.readKey(key, lastPoints('5 minutes', 12, nowMs))],
    ['a key, 24 hours', () => queries.readKey(key, day)],
    ['a key, 14 days by hour', () => queries.readKey(key, fortnight)],
    ['a key, a year by day', () => queries.readKey(key, year)],
    ['a workspace, 14 days by hour', () => queries.readWorkspace('ws_large', fortnight)],
    ['a workspace, a year by day', () => queries.readWorkspace('ws_large', year)],
    [
      'busiest keys of the largest workspace, 7 days',
      () => queries.busiestKeys('ws_large', lastPoints('day', 7, nowMs), 10),
    ],
    ['all workspaces, 7 days', () => queries.busiestWorkspaces(lastPoints('day', 7, nowMs), 50)],
  ]
  for (const [name, query] of questions) {
    const times: number[] = []
    for (let round = 0; round < 20; round++) {
      const startedMs = performance.now()
      const found = await query()
      if (('points' in found ? found.points : found).length === 0) throw new Error(`${name}: nothing found`)
      times.push(performance.now() - startedMs)
    }
    times.sort((a, b) => a - b)
    say(
      `${name.padEnd(45)} ${(times[10] ?? 0).toFixed(1).padStart(7)} ${(times[19] ?? 0).toFixed(1).padStart(7)} ms`,
    )
  }
}

async function withDatabase<Result>(databaseUrl: string, work: (database: Database) => Promise<Result>) {
  const database = await openDatabase(databaseUrl)
  try {
    return await work(database)
  } finally {
    await database.close()
  }
}
