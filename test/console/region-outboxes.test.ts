import { describeRegionOutboxes } from './region-outboxes.contract.ts'

describeRegionOutboxes('SQLite in memory', async () => 'sqlite::memory:')
