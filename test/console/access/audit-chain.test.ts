import { join } from 'node:path'
import { databaseDirectory } from '../../support/temporary-directory.ts'
import { describeAuditChain } from './audit-chain.contract.ts'

describeAuditChain('SQLite', async () => `sqlite:${join(databaseDirectory(), 'audit.db')}`)
