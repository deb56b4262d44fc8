import { DatabaseSync } from 'node:sqlite'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { createKeyRepository } from '../../../src/control/registry/database/kysely-key-repository.ts'
import { openDatabase } from '../../../src/control/registry/database/open-database.ts'
import { decodeCursor } from '../../../src/control/registry/search/key-cursor.ts'
import { LARGE, queryOf, SEARCHES } from '../../bench/searches.ts'
import { seedKeys } from '../../bench/seed-keys.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { PostgresServer } from '../../support/postgres-server.ts'
import { temporaryDirectory } from '../../support/temporary-directory.ts'
import { has, POSTGRES } from '../../support/tools.ts'

const clock = new ManualClock()
/** SQLite plans without looking at the size of tables. */
const KEYS = { sqlite: 10_000, postgres: 60_000 }
const SEEDING_MS = 120_000

/** Every kind of list, search and count, two pages of each. */
async function searchAll(url: string): Promise<void> {
  const repository = createKeyRepository(await openDatabase(url), clock, 'console-1')
  for (const [, text] of SEARCHES) {
    const query = queryOf(text)
    const { nextCursor } = await repository.search(query)
    if (nextCursor !== null) await repository.search({ ...query, after: decodeCursor(query, nextCursor) })
    await repository.count(query)
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

test(
  'SQLite answers every search from an index',
  async () => {
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
  },
  SEEDING_MS,
)

function blanksFor(statement: string): null[] {
  return Array.from(statement.matchAll(/\?/g), () => null)
}

describe.skipIf(!has(POSTGRES))('PostgreSQL', () => {
  let server: PostgresServer
  beforeAll(async () => {
    server = await PostgresServer.started()
  })
  afterAll(() => server.stop())

  test(
    'answers every search from an index',
    async () => {
      const url = await server.database()
      await seed(url)
      const before = await scansOf(url)
      await searchAll(url)
      // Closed connections have reported what they did.
      const after = await scansOf(url)
      expect(after.sequential).toBe(before.sequential)
      expect(after.index).toBeGreaterThan(before.index + 100)
    },
    SEEDING_MS,
  )
})

async function scansOf(url: string): Promise<{ sequential: number; index: number }> {
  const database = await openDatabase(url)
  const { rows } = await sql<{ sequential: number; index: number }>`
    select sum(seq_scan)::integer as sequential, sum(idx_scan)::integer as index
    from pg_stat_user_tables where relname in ('keys', 'key_use')`.execute(database.reader)
  await database.close()
  const [row] = rows
  if (row === undefined) throw new Error('PostgreSQL has no statistics')
  return row
}
