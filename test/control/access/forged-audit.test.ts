import { join } from 'node:path'
import { temporaryDirectory } from '../../support/temporary-directory.ts'
import { describeForgedAudit } from './forged-audit.contract.ts'

describeForgedAudit('SQLite', async () => `sqlite:${join(temporaryDirectory(), 'forged.db')}`)
