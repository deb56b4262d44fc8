import { join } from 'node:path'
import { databaseDirectory } from '../support/temporary-directory.ts'
import { describeRevokeAll } from './revoke-all.contract.ts'

describeRevokeAll('an SQLite file', async () => `sqlite:${join(databaseDirectory(), 'a.db')}`)
