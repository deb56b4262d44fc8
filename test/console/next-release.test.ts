import { join } from 'node:path'
import { expect, test } from 'vitest'
import { databaseDirectory } from '../support/temporary-directory.ts'
import { conflicts, describeNextRelease } from './next-release.contract.ts'

describeNextRelease('SQLite', async () => `sqlite:${join(databaseDirectory(), 'keys.db')}`)

test('a new column that an insert of the release before would have to name is found, in an old table alone', () => {
  const column = {
    table: 'keys',
    name: 'id',
    type: 'text',
    isNullable: false,
    hasDefault: false,
    isPrimary: true,
  }
  const owner = { ...column, name: 'owner', isPrimary: false }
  expect(conflicts([column], [column, owner])).toEqual(['keys.owner is new, and an insert must name it'])
  expect(conflicts([column], [column, { ...owner, hasDefault: true }])).toEqual([])
  expect(conflicts([column], [column, { ...owner, table: 'owners' }])).toEqual([])
})
