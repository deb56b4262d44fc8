import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { queryOf } from '../../bench/searches.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { PostgresServer } from '../../support/postgres-server.ts'
import { openRepository } from '../../support/repository.ts'
import { has, POSTGRES } from '../../support/tools.ts'
import { describeKeySearch } from './key-search.contract.ts'
import { describeKeyWalks } from './key-walk.contract.ts'

describe.skipIf(!has(POSTGRES))('with a real PostgreSQL', () => {
  let server: PostgresServer
  beforeAll(async () => {
    server = await PostgresServer.started()
  })
  afterAll(() => server.stop())
  // As often as on SQLite in `npm test`.
  describeKeySearch('PostgreSQL', () => server.migratedDatabase(), 25)
  describeKeyWalks('PostgreSQL', () => server.migratedDatabase(), 4)

  test('numbers of keys that PostgreSQL does not count in two seconds are left out', async () => {
    const url = await server.migratedDatabase()
    const repository = await openRepository(url, new ManualClock())
    onTestFinished(() => repository.close())
    const client = new pg.Client(url)
    await client.connect()
    onTestFinished(() => client.end())
    await client.query('begin; lock table keys in access exclusive mode')
    expect(await Promise.all([repository.count(queryOf({})), repository.countForSync(0)])).toEqual([
      null,
      null,
    ])
    await client.query('rollback')
    expect(await Promise.all([repository.count(queryOf({})), repository.countForSync(0)])).toEqual([0, 0])
  })
})
