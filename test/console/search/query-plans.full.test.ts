import { DatabaseSync } from 'node:sqlite'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { decodeCursor } from '../../../src/console/keys/search/key-query.ts'
import { LARGE, queryOf, SEARCHES } from '../../bench/searches.ts'
import { seedKeys } from '../../bench/seed-keys.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { openDatabase } from '../../support/open-database.ts'
import { PostgresServer } from '../../support/postgres-server.ts'
import { createRepository } from '../../support/repository.ts'
import { connect } from '../../support/sql-connection.ts'
import { temporaryDirectory } from '../../support/temporary-directory.ts'
import { has, POSTGRES } from '../../support/tools.ts'
import { until } from '../../support/until.ts'

const clock = new ManualClock()
/** SQLite plans without looking at the size of tables. */
const KEYS = { sqlite: 10_000, postgres: 60_000 }

/** Every kind of list and search, two pages of each, and of workspaces. */
async function searchAll(url: string): Promise<void> {
  const database = await openDatabase(url)
  const repository = createRepository(database, clock, 'console-1')
  for (const [, text] of SEARCHES) {
    const query = queryOf(text)
    const { nextCursor } = await repository.search(query)
    if (nextCursor !== null) await repository.search({ ...query, after: decodeCursor(query, nextCursor) })
    // PostgreSQL may read the table from end to end to count: two seconds bound it.
    if (database.dialect === 'sqlite') await repository.count(query)
  }
  const all = { workspaceIds: null, text: null, limit: 50, afterId: null, maxKeysCounted: null }
  await repository.listWorkspaces(all)
  await repository.listWorkspaces({ ...all, maxKeysCounted: 50_000 })
  await repository.listWorkspaces({ ...all, text: '1', afterId: 'ws_1' })
  await repository.listWorkspaces({ ...all, workspaceIds: [LARGE, 'ws_1'] })
  await repository.close()
}

async function seed(url: string): Promise<void> {
  const database = await openDatabase(url)
  const keys = KEYS[database.dialect]
  await seedKeys(database, { keys, workspaces: keys / 100, inLargest: keys / 3, nowMs: clock.wallMs() })
  // The console never analyzes an SQLite file: its plans must not depend on it.
  if (database.dialect === 'sqlite') await sql`delete from sqlite_stat1`.execute(database.writer)
  if (database.dialect === 'postgres') {
    // In a table this small, reading all of it would otherwise cost less than some thousand lookups.
    await sql`do $$ begin execute format('alter database %I set random_page_cost = 1.1', current_database()); end $$`.execute(
      database.writer,
    )
  }
  await database.close()
}

test('SQLite answers every search from an index', async () => {
  const file = `${temporaryDirectory()}/plans.db`
  await seed(`sqlite:${file}`)
  const prepare = vi.spyOn(DatabaseSync.prototype, 'prepare')
  await searchAll(`sqlite:${file}`)
  const statements = new Set(prepare.mock.calls.map(([statement]) => statement))
  prepare.mockRestore()
  const database = new DatabaseSync(file)
  database.function('fold', text => String(text))
  let plans = 0
  for (const statement of statements) {
    if (!/\b(?:keys|key_use)\b/.test(statement) || !/^\s*(?:select|with)/.test(statement)) continue
    plans++
    const plan = database.prepare(`explain query plan ${statement}`).all(...blanksFor(statement))
    const steps = plan.map(({ detail }) => String(detail))
    // A subquery of the same name is read by a step of its own.
    const scans = steps.filter(step => /^SCAN (?:keys|key_use)$/.test(step)).length
    const ownSteps = steps.filter(step => step === 'CO-ROUTINE keys').length
    expect([statement, steps, scans]).toEqual([statement, steps, ownSteps])
  }
  database.close()
  expect(plans).toBeGreaterThan(40)
})

function blanksFor(statement: string): null[] {
  return Array.from(statement.matchAll(/\?/g), () => null)
}

describe.skipIf(!has(POSTGRES))('PostgreSQL', () => {
  let server: PostgresServer
  beforeAll(async () => {
    server = await PostgresServer.started()
  })
  afterAll(() => server.stop())

  test('answers every search from an index', async () => {
    const url = await server.database()
    await seed(url)
    const before = await scansOf(url)
    await searchAll(url)
    const after = await scansOf(url)
    expect(after.sequential).toBe(before.sequential)
    expect(after.index).toBeGreaterThan(before.index + 100)
  })

  test('reads only the entries of each workspace, with keys of one time in 1,000 of them', async () => {
    const url = await server.database()
    await seedOfOneTime(url)
    const before = await scansOf(url)
    const repository = createRepository(await openDatabase(url), clock, 'console-1')
    for (const sort of ['-createdAt', 'expiresAt'] as const) {
      const workspaceIds = Array.from({ length: 1000 }, (_, number) => `ws_${number}`)
      await repository.search({ ...queryOf({ q: 'no such key', sort }), workspaceIds })
    }
    await repository.close()
    const after = await scansOf(url)
    // The index of all workspaces, from its start for each of them, has millions.
    expect(after.entries - before.entries).toBeLessThan(100_000)
  })
})

async function seedOfOneTime(url: string): Promise<void> {
  const database = await openDatabase(url)
  // In the order of their ids, as an import writes them.
  await sql`
    insert into keys (id, digest, workspace_id, name, scopes, hint, created_at_ms, created_by, expires_at_ms, version,
      changed_at_ms)
    select 'key_' || lpad(number::text, 26, '0'), lpad(number::text, 64, '0'), 'ws_' || number % 1000, 'build',
      '[]', 'wsk_…' || number, ${clock.wallMs()}::bigint, 'admin-token', ${clock.wallMs() + 1_000_000}::bigint, 1,
      ${clock.wallMs()}::bigint
    from generate_series(1, 20000) as number`.execute(database.writer)
  // Not vacuumed yet: an index alone does not answer.
  await sql`analyze keys`.execute(database.writer)
  await database.close()
}

interface Scans {
  readonly sequential: number
  readonly index: number
  /** Entries read from the indexes of keys. */
  readonly entries: number
}

/** By one session: a console's pools keep their first ones for ten seconds, and this would wait for its own. */
async function scansOf(url: string): Promise<Scans> {
  const { run, close } = await connect(url)
  await until('the sessions that ended have reported what they did', async () => {
    const others = await run(`
      select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`)
    return others.length === 0
  })
  const [row] = await run(`
    select sum(seq_scan)::integer as sequential, sum(idx_scan)::integer as index,
      (select sum(idx_tup_read)::integer from pg_stat_user_indexes where relname = 'keys') as entries
    from pg_stat_user_tables where relname in ('keys', 'key_use')`)
  await close()
  if (row === undefined) throw new Error('PostgreSQL has no statistics')
  const { sequential, index, entries } = row
  return { sequential: Number(sequential), index: Number(index), entries: Number(entries) }
}
