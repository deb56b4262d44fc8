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
  describeKeySearch('PostgreSQL', () => server.migratedDatabase())
  describeKeyWalks('PostgreSQL', () => server.migratedDatabase())
})
