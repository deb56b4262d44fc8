import { join } from 'node:path'
import { databaseDirectory } from '../../support/temporary-directory.ts'
import { describeNearLimits } from './near-limits.contract.ts'
import { describeUsage } from './usage.contract.ts'

describeUsage('an SQLite file', async () => `sqlite:${join(databaseDirectory(), 'postern.db')}`, 1)
describeNearLimits('an SQLite file', async () => `sqlite:${join(databaseDirectory(), 'postern.db')}`, 1)
