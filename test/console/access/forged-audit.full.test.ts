import { afterAll, beforeAll, describe } from 'vitest'
import { PostgresServer } from '../../support/postgres-server.ts'
import { has, POSTGRES } from '../../support/tools.ts'
import { describeForgedAudit } from './forged-audit.contract.ts'

describe.skipIf(!has(POSTGRES))('with a real PostgreSQL', () => {
  let server: PostgresServer
  beforeAll(async () => {
    server = await PostgresServer.started()
  })
  afterAll(() => server.stop())
  describeForgedAudit('PostgreSQL', () => server.migratedDatabase())
})
