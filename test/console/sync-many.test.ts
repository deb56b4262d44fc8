import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { openDatabase } from '../support/open-database.ts'
import { createRepository } from '../support/repository.ts'
import { NOW_MS } from '../support/stored-keys.ts'

test('a sync passes over any number of expired keys, and returns each of the others once', async () => {
  const database = await openDatabase('sqlite::memory:')
  const later = NOW_MS + 1
  await sql`
    with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 25000)
    insert into keys (id, digest, workspace_id, name, scopes, hint, created_at_ms, created_by, expires_at_ms, version,
      changed_at_ms)
    select printf('key_%026d', n), printf('%064x', n), 'ws_1', 'name', '["files:read"]', 'hint', 1, 'test',
      case when n % 1000 = 7 or n > 24000 then ${sql.lit(later)} else 1 end, 1, 1 from numbers`.execute(
    database.writer,
  )
  const clock = { wallMs: () => NOW_MS, monotonicMs: () => 0 }
  const repository = createRepository(database, clock, 'console-1')
  const found: string[] = []
  let pages = 0
  let afterId: string | null = null
  do {
    const page = await repository.listForSync({ expiresAfterMs: NOW_MS, limit: 300, afterId })
    found.push(...page.keys.map(({ record }) => record.id))
    afterId = page.nextAfterId
    pages++
  } while (afterId !== null)
  expect(found).toHaveLength(24 + 1000)
  expect(new Set(found).size).toBe(found.length)
  expect(found).toEqual(found.toSorted())
  // Two without a full page, and four of the last thousand.
  expect(pages).toBe(6)
  await repository.close()
})
