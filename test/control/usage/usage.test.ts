import { join } from 'node:path'
import { temporaryDirectory } from '../../support/temporary-directory.ts'
import { describeUsage } from './usage.contract.ts'

describeUsage('an SQLite file', async () => `sqlite:${join(temporaryDirectory(), 'postern.db')}`, 1)
