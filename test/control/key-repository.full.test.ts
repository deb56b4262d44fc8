import { afterAll, beforeAll, describe } from 'vitest'
import { PostgresServer } from '../support/postgres-server.ts'
import { has, POSTGRES } from '../support/tools.ts'
import { describeChangesTogether } from './changes-together.contract.ts'
import { describeKeyChanges } from './key-changes.contract.ts'
import { describeKeyExport } from './key-export.contract.ts'
import { describeKeyImport } from './key-import.contract.ts'
import { describeKeyLife } from './key-life.contract.ts'
import { describeKeyRepository } from './key-repository.contract.ts'
import { describeOperations } from './operations.contract.ts'
import { describeRegionOutboxes } from './region-outboxes.contract.ts'
import { describeRevokeAll } from './revoke-all.contract.ts'

const contracts = [describeKeyRepository, describeOperations, describeKeyChanges]
for (const describeOn of contracts) describeOn('SQLite in memory', async () => 'sqlite::memory:', false)
describeKeyLife('SQLite', async () => 'sqlite::memory:', 60)

describe.skipIf(!has(POSTGRES))('with a real PostgreSQL', () => {
  let server: PostgresServer
  beforeAll(async () => {
    server = await PostgresServer.started()
  })
  afterAll(() => server.stop())
  describeKeyLife('PostgreSQL', () => server.database(), 8)
  for (const describeOn of contracts) describeOn('PostgreSQL', () => server.database(), true)
  describeRegionOutboxes('PostgreSQL', () => server.database())
  describeChangesTogether(() => server.database())
  describeRevokeAll('PostgreSQL', () => server.database())
  describeKeyExport('PostgreSQL', () => server.database())
  describeKeyImport('PostgreSQL', () => server.database())
})
