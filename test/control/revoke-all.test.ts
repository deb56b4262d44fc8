import { join } from 'node:path'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { describeRevokeAll } from './revoke-all.contract.ts'

describeRevokeAll('an SQLite file', async () => `sqlite:${join(temporaryDirectory(), 'a.db')}`)
