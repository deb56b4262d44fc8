import { join } from 'node:path'
import { databaseDirectory } from '../support/temporary-directory.ts'
import { describeKeyExport } from './key-export.contract.ts'

describeKeyExport('an SQLite file', async () => `sqlite:${join(databaseDirectory(), 'a.db')}`)
