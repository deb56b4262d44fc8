import { afterAll, beforeAll, describe } from 'vitest'
import { describeOperations } from '../../console/operations.contract.ts'
import { PgBouncer } from '../../support/pgbouncer.ts'
import { PostgresServer } from '../../support/postgres-server.ts'
import { has, PGBOUNCER, POSTGRES } from '../../support/tools.ts'

/** `test/console/poolers.full.test.ts` makes each kind of change through a pooler; here each operation has all its cases. */
describe.skipIf(!has(POSTGRES) || !has(PGBOUNCER))('behind PgBouncer in transaction mode', () => {
  let server: PostgresServer
  let pooler: PgBouncer
  beforeAll(async () => {
    // The pooler keeps its connections to the databases of earlier tests.
    server = await PostgresServer.temporary({ max_connections: '800' })
    pooler = await PgBouncer.start(server.urlOf('postgres'), 'transaction')
  })
  afterAll(async () => {
    await pooler.stop()
    await server.stop()
  })
  const freshUrl = async () => pooler.urlOf(await server.migratedDatabase())
  describeOperations('PostgreSQL behind PgBouncer', freshUrl, true)
})
