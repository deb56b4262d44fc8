import { describeAdminTokens } from './admin-tokens.contract.ts'

describeAdminTokens('SQLite', async () => 'sqlite::memory:')
