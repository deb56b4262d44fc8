import { afterAll, beforeAll, describe } from 'vitest'
import { describeKeyLife } from '../../console/key-life.contract.ts'
import { PostgresServer } from '../../support/postgres-server.ts'
import { has, POSTGRES } from '../../support/tools.ts'

describeKeyLife('SQLite', async () => 'sqlite::memory:', 300)

describe.skipIf(!has(POSTGRES))('with a real PostgreSQL', () => {
  let server: PostgresServer
  beforeAll(async () => {
    server = await PostgresServer.started()
  })
  afterAll(() => server.stop())
  describeKeyLife('PostgreSQL', () => server.migratedDatabase(), 40)
})
