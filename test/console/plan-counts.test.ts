import { expect, onTestFinished, test } from 'vitest'
import { toKeyRow } from '../../src/console/platform/database/key-row.ts'
import { openDatabase } from '../support/open-database.ts'
import { createRepository } from '../support/repository.ts'
import { NOW_MS, revoked, someKey } from '../support/stored-keys.ts'

/** A statement of SQLite examines 2,500 keys. */
async function setUp(msEachLook: number) {
  const database = await openDatabase('sqlite::memory:')
  let monotonicMs = 0
  const clock = { wallMs: () => NOW_MS, monotonicMs: () => (monotonicMs += msEachLook) }
  const repository = createRepository(database, clock)
  onTestFinished(() => repository.close())
  const keys = Array.from({ length: 2_600 }, (_, index) =>
    someKey({ plan: index < 1_300 ? 'free' : null, workspaceId: `ws_${index % 3}` }),
  )
  const ended = [revoked(someKey({ plan: 'gone' })), someKey({ plan: 'gone', expiresAtMs: NOW_MS })]
  const rows = [...keys, ...ended].map(key => toKeyRow(key, NOW_MS))
  for (let from = 0; from < rows.length; from += 500) {
    await database.writer
      .insertInto('keys')
      .values(rows.slice(from, from + 500))
      .execute()
  }
  return repository
}

test('keys are counted by plan across statements, those that have ended left out', async () => {
  const repository = await setUp(100)
  const counts = (await repository.countByPlan()) ?? []
  expect(counts.toSorted((a, b) => String(a.plan).localeCompare(String(b.plan)))).toEqual([
    { plan: 'free', keys: 1_300, workspaces: 3 },
    { plan: null, keys: 1_300, workspaces: 3 },
  ])
})

test('the plan of a workspace is found; one that has none has no plan', async () => {
  const database = await openDatabase('sqlite::memory:')
  const repository = createRepository(database, { wallMs: () => NOW_MS, monotonicMs: () => 0 })
  onTestFinished(() => repository.close())
  await database.writer.insertInto('workspace_plans').values({ workspace_id: 'ws_1', plan: 'free' }).execute()
  expect([await repository.findPlan('ws_1'), await repository.findPlan('ws_2')]).toEqual(['free', null])
  expect(await repository.findPlans(['ws_2', 'ws_1'])).toEqual(
    new Map([
      ['ws_2', null],
      ['ws_1', 'free'],
    ]),
  )
})

test('keys are not counted by plan for longer than two seconds', async () => {
  const repository = await setUp(1_100)
  expect(await repository.countByPlan()).toBeNull()
})
