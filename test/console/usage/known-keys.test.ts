import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { toKeyRow } from '../../../src/console/platform/database/key-row.ts'
import { createFindKnown } from '../../../src/console/usage/reports/check-report.ts'
import { openDatabase } from '../../support/open-database.ts'
import { NOW_MS, someKey } from '../../support/stored-keys.ts'

const [KEY, OTHER] = ['key_01ARZ3NDEKTSV4RRFFQ69G5FAV', 'key_01ARZ3NDEKTSV4RRFFQ69G5FAW']

async function started() {
  const database = await openDatabase('sqlite::memory:')
  onTestFinished(() => database.close())
  const insert = (id: string, workspaceId: string) =>
    database.writer
      .insertInto('keys')
      .values([toKeyRow(someKey({ id, workspaceId }), NOW_MS)])
      .execute()
  return { database, insert, findKnown: createFindKnown(database) }
}

test('keys and workspaces that a report names are found, wherever it names them', async () => {
  const { insert, findKnown } = await started()
  await insert(KEY, 'ws_1')
  await insert(OTHER, 'ws_2')
  const { findWorkspace: workspaceOf, hasWorkspace } = await findKnown({
    counts: [{ keyId: KEY }, { workspaceId: 'ws_1' }, null, 'text', { keyId: 7 }],
    refusals: [{ keyId: OTHER }],
    omittedRefusals: [{ workspaceId: 'ws_2' }, { workspaceId: 'ws_3' }],
  })
  expect([KEY, OTHER, 'key_x'].map(workspaceOf)).toEqual(['ws_1', 'ws_2', null])
  expect(['ws_1', 'ws_2', 'ws_3'].map(hasWorkspace)).toEqual([true, true, false])
})

test('a known key or workspace is read once, and an unknown one again with the next report', async () => {
  const { database, insert, findKnown } = await started()
  await insert(KEY, 'ws_1')
  const lists = { counts: [{ keyId: KEY }, { keyId: OTHER }], omittedRefusals: [{ workspaceId: 'ws_1' }] }
  const { findWorkspace: workspaceOf } = await findKnown(lists)
  expect([KEY, OTHER].map(workspaceOf)).toEqual(['ws_1', null])
  // No console does that: only a second reading can notice it.
  await sql`pragma foreign_keys = off`.execute(database.writer)
  await database.writer.deleteFrom('keys').execute()
  await insert(OTHER, 'ws_2')
  const again = await findKnown({ ...lists, counts: [...lists.counts, { workspaceId: 'ws_2' }] })
  expect([KEY, OTHER].map(again.findWorkspace)).toEqual(['ws_1', 'ws_2'])
  expect(['ws_1', 'ws_2'].map(again.hasWorkspace)).toEqual([true, true])
})

test('texts that no id can be are not sent to the database, and match nothing', async () => {
  const { insert, findKnown } = await started()
  const long = 'w'.repeat(129)
  await insert(KEY, long)
  const { hasWorkspace } = await findKnown({
    omittedRefusals: [long, 'a\0b'].map(workspaceId => ({ workspaceId })),
  })
  expect([long, 'a\0b'].map(hasWorkspace)).toEqual([false, false])
  await insert(OTHER, 'w'.repeat(128))
  const longest = { omittedRefusals: [{ workspaceId: 'w'.repeat(128) }] }
  expect((await findKnown(longest)).hasWorkspace('w'.repeat(128))).toBe(true)
})
