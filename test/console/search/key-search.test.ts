import { describeKeySearch } from './key-search.contract.ts'
import { describeKeyWalks } from './key-walk.contract.ts'

describeKeySearch('SQLite', async () => 'sqlite::memory:')
describeKeyWalks('SQLite', async () => 'sqlite::memory:')
