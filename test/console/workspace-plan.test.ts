import { join } from 'node:path'
import { databaseDirectory } from '../support/temporary-directory.ts'
import { describeWorkspacePlan } from './workspace-plan.contract.ts'

describeWorkspacePlan('an SQLite file', async () => `sqlite:${join(databaseDirectory(), 'a.db')}`)
