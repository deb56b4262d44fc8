import { afterAll, beforeAll, describe } from 'vitest'
import { PostgresServer } from '../../support/postgres-server.ts'
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
})
