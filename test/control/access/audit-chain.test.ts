import { join } from 'node:path'
import { temporaryDirectory } from '../../support/temporary-directory.ts'
import { describeAuditChain } from './audit-chain.contract.ts'

describeAuditChain('SQLite', async () => `sqlite:${join(temporaryDirectory(), 'audit.db')}`)
