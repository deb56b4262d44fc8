import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import { openDatabase } from '../../src/control/registry/database.ts'
import { createKeyRepository } from '../../src/control/registry/kysely-key-repository.ts'
import { describeKeyRepository } from './key-repository.contract.ts'

const directory = mkdtempSync(join(tmpdir(), 'postern-repository-'))
let files = 0
afterAll(() => rmSync(directory, { recursive: true, force: true }))

describeKeyRepository('SQLite in memory', async clock =>
  createKeyRepository(await openDatabase('sqlite::memory:'), clock),
)
describeKeyRepository('an SQLite file', async clock =>
  createKeyRepository(await openDatabase(`sqlite:${join(directory, `${++files}.db`)}`), clock),
)
