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
import { describeWorkspacePlan } from './workspace-plan.contract.ts'

// The other contracts hold on SQLite in `npm test`.
describeKeyLife('SQLite', async () => 'sqlite::memory:', 10)

describe.skipIf(!has(POSTGRES))('with a real PostgreSQL', () => {
  let server: PostgresServer
  beforeAll(async () => {
    server = await PostgresServer.started()
  })
  afterAll(() => server.stop())
  describeKeyLife('PostgreSQL', () => server.migratedDatabase(), 3)
  for (const describeOn of [describeKeyRepository, describeOperations, describeKeyChanges]) {
    describeOn('PostgreSQL', () => server.migratedDatabase(), true)
  }
  // Its clock begins with the migration.
  describeRegionOutboxes('PostgreSQL', () => server.database())
  describeChangesTogether(() => server.migratedDatabase())
  describeRevokeAll('PostgreSQL', () => server.migratedDatabase())
  describeWorkspacePlan('PostgreSQL', () => server.migratedDatabase())
  describeKeyExport('PostgreSQL', () => server.migratedDatabase())
  describeKeyImport('PostgreSQL', () => server.migratedDatabase())
})
