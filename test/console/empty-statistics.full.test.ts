import { type RawBuilder, sql } from 'kysely'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { AuditedDatabase } from '../../src/console/platform/audit/mac.ts'
import { claimDue } from '../../src/console/webhooks/rows.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { openDatabase } from '../support/open-database.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { createRepository } from '../support/repository.ts'
import { has, POSTGRES } from '../support/tools.ts'

const ROWS = 2_000
const LIMIT = 100

// Tables of things to do are nearly always empty when PostgreSQL counts their rows, and it plans for that.
describe.skipIf(!has(POSTGRES))('a burst into a table that PostgreSQL believes to be nearly empty', () => {
  let server: PostgresServer
  let database: AuditedDatabase
  beforeAll(async () => {
    server = await PostgresServer.started()
  })
  afterAll(() => server.stop())
  beforeEach(async () => {
    database = await openDatabase(await server.database())
  })
  afterEach(() => database.close())

  /** @param row selects the columns of one row, `n` the number of it */
  async function burst(table: string, row: RawBuilder<unknown>) {
    const fill = (rows: number) =>
      sql`insert into ${sql.table(table)} select r.* from generate_series(1, ${sql.lit(rows)}) as n, lateral (${row}) as r`
    await fill(ROWS).execute(database.writer)
    await sql`delete from ${sql.table(table)}`.execute(database.writer)
    await sql`analyze ${sql.table(table)}`.execute(database.writer)
    await fill(ROWS).execute(database.writer)
  }

  test('no more changes are claimed from the outbox of a region than asked for', async () => {
    const repository = createRepository(database, new ManualClock(), 'console-1')
    await repository.registerRegions(['eu'])
    const outbox = repository.pendingIn('eu')
    await burst('outbox', sql`select 'eu', 'digest-' || n, 1, n, '', 0`)
    const claimed = await outbox.claimChanges(LIMIT)
    expect(claimed.map(({ atMs }) => atMs)).toEqual(Array.from({ length: LIMIT }, (_, index) => index + 1))
    await outbox.deletePendingChanges(claimed)
    expect(await outbox.countPending()).toBe(ROWS - LIMIT)
  })

  test('no more deliveries of webhooks are claimed than asked for', async () => {
    await burst(
      'webhook_deliveries',
      sql`select '', n::text, 'ws_1', 'key_1', 'key.revoked', 'occasion-' || n, n, '{}', 0, n, null::bigint, null::integer, null`,
    )
    const claim = { kind: 'operator', receivers: 1, eventsOfEach: LIMIT, dialect: 'postgres' } as const
    const times = { nowMs: ROWS, claimedUntilMs: ROWS + 1 }
    const [claimed] = await database.writer.transaction().execute(tx => claimDue(tx, { ...claim, ...times }))
    expect(claimed?.due).toHaveLength(LIMIT)
  })
})
