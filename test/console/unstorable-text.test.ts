import { describeUnstorableText } from './unstorable-text.contract.ts'

describeUnstorableText('SQLite', async () => 'sqlite::memory:')
