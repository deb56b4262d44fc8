import { describeKeySearch } from './key-search.contract.ts'

describeKeySearch('SQLite', async () => 'sqlite::memory:')
