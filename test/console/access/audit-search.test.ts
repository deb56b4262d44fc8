import { describeAuditSearch } from './audit-search.contract.ts'

describeAuditSearch('SQLite', async () => 'sqlite::memory:')
