import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openDatabase as openMigrated } from '../../src/console/platform/open-database.ts'
import { MIGRATIONS } from '../../src/console/schema.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { connect } from '../support/sql-connection.ts'
import { has, POSTGRES } from '../support/tools.ts'
import { conflicts, describeNextRelease } from './next-release.contract.ts'

describe.skipIf(!has(POSTGRES))('with a real PostgreSQL', () => {
  let server: PostgresServer
  beforeAll(async () => {
    server = await PostgresServer.started()
  })
  afterAll(() => server.stop())

  describeNextRelease('PostgreSQL', () => server.database())

  test('another type of a column would be found', async () => {
    const url = await server.database()
    await (await openMigrated(url, MIGRATIONS)).close()
    const connection = await connect(url)
    const columns = await connection.columns()
    await connection.script('alter table keys alter column version type bigint')
    expect(conflicts(columns, await connection.columns())).toEqual(['keys.version is not as it was'])
    await connection.close()
  })
})
