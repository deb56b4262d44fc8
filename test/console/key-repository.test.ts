import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import { DATABASES } from '../support/databases.ts'
import { describeKeyChanges } from './key-changes.contract.ts'
import { describeKeyRepository } from './key-repository.contract.ts'
import { describeOperations } from './operations.contract.ts'

const directory = mkdtempSync(join(DATABASES, 'postern-repository-'))
let files = 0
afterAll(() => rmSync(directory, { recursive: true, force: true }))

for (const describeOn of [describeKeyRepository, describeOperations, describeKeyChanges]) {
  describeOn('an SQLite file', async () => `sqlite:${join(directory, `${++files}.db`)}`, false)
}
