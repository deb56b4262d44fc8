import { join } from 'node:path'
import { databaseDirectory } from '../../support/temporary-directory.ts'
import { describeForgedAudit } from './forged-audit.contract.ts'

describeForgedAudit('SQLite', async () => `sqlite:${join(databaseDirectory(), 'forged.db')}`)
