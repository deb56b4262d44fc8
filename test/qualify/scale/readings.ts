import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { postmasterOf, processorTimeUs, residentBytes, treeTimeUs } from '../../bench/processor-time.ts'
import { scrape, sumOf } from '../../support/scrape.ts'
import type { ScaleWorld } from './world.ts'

/** Sums since the start of each process. */
export interface Reading {
  readonly atMs: number
  readonly consoleUs: number
  readonly postgresUs: number
  readonly redisUs: number
  readonly generatorUs: number
  readonly commits: number
  readonly rowsWritten: number
  readonly walBytes: number
  readonly published: number
  readonly redisBytes: number
  readonly calls: ReadonlyMap<string, number>
  readonly consoleBytes: number
}

export async function readAll(world: ScaleWorld): Promise<Reading> {
  await sleep(world.statisticsLagMs)
  const pid = world.console.process.child.pid ?? 0
  const postmaster = await postmasterOf(world.database.reader)
  const redis = await Promise.all(world.regions.map(({ redis }) => redis.admin.info('everything')))
  const ofRedis = (pattern: RegExp) =>
    redis.reduce((sum, text) => sum + Number(pattern.exec(text)?.[1] ?? 0), 0)
  return {
    atMs: performance.now(),
    consoleUs: processorTimeUs(pid),
    postgresUs: treeTimeUs(postmaster),
    redisUs: world.regions.reduce((sum, { redis }) => sum + processorTimeUs(redis.pid), 0),
    generatorUs: processorTimeUs(process.pid),
    ...(await readPostgres(world)),
    published: ofRedis(/cmdstat_publish:calls=(\d+)/),
    redisBytes: ofRedis(/total_net_output_bytes:(\d+)/),
    calls: await readCalls(world),
    consoleBytes: residentBytes(pid),
  }
}

async function readPostgres({ database }: ScaleWorld) {
  const { rows } = await sql<{ commits: number; written: number; wal: string }>`
    select xact_commit as commits, tup_inserted + tup_updated + tup_deleted as written,
      (select wal_bytes from pg_stat_wal)::text as wal
    from pg_stat_database where datname = current_database()`.execute(database.reader)
  const [row] = rows
  return {
    commits: Number(row?.commits),
    rowsWritten: Number(row?.written),
    walBytes: Number(row?.wal),
  }
}

/** Calls at the console's listener for gateways, by name. */
async function readCalls({ console }: ScaleWorld): Promise<Map<string, number>> {
  const metrics = await scrape(console.urls.ops)
  const names = ['lookup', 'lookups', 'usage', 'confirmations']
  return new Map(
    names.map(name => [name, sumOf(metrics, 'postern_internal_requests_total', `operation="${name}"`)]),
  )
}

/** What happened between two readings, as a table row each. */
export function describeSpan(before: Reading, after: Reading): [string, string][] {
  const seconds = (after.atMs - before.atMs) / 1000
  const share = (from: number, to: number) => `${((to - from) / 1e4 / seconds).toFixed(1)} % of a core`
  const rate = (from: number, to: number) => `${((to - from) / seconds).toFixed(1)}/s`
  const calls = [...after.calls].map(([name, sum]): [string, string] => [
    `calls of ${name}`,
    rate(before.calls.get(name) ?? 0, sum),
  ])
  return [
    ['seconds', seconds.toFixed(1)],
    ['console', share(before.consoleUs, after.consoleUs)],
    ['console, resident', `${(after.consoleBytes / 1e6).toFixed(0)} MB`],
    ['PostgreSQL', share(before.postgresUs, after.postgresUs)],
    ['PostgreSQL, commits', rate(before.commits, after.commits)],
    ['PostgreSQL, rows written', rate(before.rowsWritten, after.rowsWritten)],
    ['PostgreSQL, WAL', `${((after.walBytes - before.walBytes) / 1000 / seconds).toFixed(1)} kB/s`],
    ['Redis, all regions', share(before.redisUs, after.redisUs)],
    ['Redis, messages published', rate(before.published, after.published)],
    ['Redis, sent', `${((after.redisBytes - before.redisBytes) / 1000 / seconds).toFixed(1)} kB/s`],
    ...calls,
    ['generator', share(before.generatorUs, after.generatorUs)],
    ['load average', loadavg()[0]?.toFixed(1) ?? ''],
  ]
}

/** Runs the work and prints what it took. */
export async function observed<Result>(
  world: ScaleWorld,
  title: string,
  work: () => Promise<Result>,
): Promise<Result> {
  const before = await readAll(world)
  const result = await work()
  const after = await readAll(world)
  say(`\n${title}`)
  for (const [name, value] of describeSpan(before, after)) say(`  ${name.padEnd(28)} ${value}`)
  return result
}

export function say(line: string): void {
  process.stdout.write(`${line}\n`)
}

/** @returns for example `p50 12 ms, p99 40 ms, longest 41 ms` */
export function describeTimes(timesMs: readonly number[]): string {
  const sorted = timesMs.toSorted((a, b) => a - b)
  const at = (share: number) => (sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN).toFixed(0)
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, longest ${at(1)} ms`
}
