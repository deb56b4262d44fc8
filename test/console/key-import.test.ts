import { describeKeyImport } from './key-import.contract.ts'

describeKeyImport('SQLite', async () => 'sqlite::memory:')
