import { expect, onTestFinished, test } from 'vitest'
import { queryOf } from '../../bench/searches.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { insert, openRepository } from '../../support/repository.ts'
import { someKey } from '../../support/stored-keys.ts'
import { describeKeySearch } from './key-search.contract.ts'
import { describeKeyWalks } from './key-walk.contract.ts'

describeKeySearch('SQLite', async () => 'sqlite::memory:')
describeKeyWalks('SQLite', async () => 'sqlite::memory:')

test('a number of keys that SQLite does not count in two seconds is left out', async () => {
  class HurryingClock extends ManualClock {
    override monotonicMs(): number {
      this.advance(msOfRead)
      return super.monotonicMs()
    }
  }
  let msOfRead = 2_001
  const repository = await openRepository('sqlite::memory:', new HurryingClock())
  onTestFinished(() => repository.close())
  await insert(repository, someKey())
  expect(await repository.count(queryOf({}))).toBeNull()
  msOfRead = 1
  expect(await repository.count(queryOf({}))).toBe(1)
})
