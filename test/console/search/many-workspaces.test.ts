import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { searchAudit } from '../../../src/console/audit/rows.ts'
import { KEY_SORTS, parseKeyQuery } from '../../../src/console/keys/search/key-query.ts'
import type { AuditedDatabase } from '../../../src/console/platform/audit/mac.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { openDatabase } from '../../support/open-database.ts'
import { createRepository, insert, type Repository } from '../../support/repository.ts'
import { someKey } from '../../support/stored-keys.ts'

const WORKSPACES = Array.from({ length: 1000 }, (_, number) => `ws_${number}`)
/** Of one page or total; a query for each workspace would be a thousand. */
const STATEMENTS = 8

describe('a caller who may see 1,000 workspaces', () => {
  let database: AuditedDatabase
  let repository: Repository
  beforeAll(async () => {
    database = await openDatabase('sqlite::memory:')
    repository = createRepository(database, new ManualClock(), 'console-1')
    for (let number = 0; number < 300; number++) {
      await insert(repository, someKey({ workspaceId: `ws_${number % 150}`, name: `key ${number}` }))
    }
  })
  afterAll(() => repository.close())

  const statementsOf = async (work: () => Promise<unknown>) => {
    const prepare = vi.spyOn(DatabaseSync.prototype, 'prepare')
    await work()
    const statements = prepare.mock.calls.length
    prepare.mockRestore()
    return statements
  }
  const queryOf = (text: Parameters<typeof parseKeyQuery>[0]) => {
    const parsed = parseKeyQuery(text)
    if (!parsed.ok) throw new Error(`${parsed.field} must be ${parsed.expected}`)
    return { ...parsed.query, workspaceIds: WORKSPACES }
  }
  const texts = KEY_SORTS.flatMap(sort => [
    { sort },
    { sort: `-${sort}`, state: 'revoked' },
    { sort, q: 'no such key' },
    { sort, scope: 'no:scope', limit: '200' },
  ])

  test.each(texts)('has a list and its total from a few statements: %j', async text => {
    const query = queryOf(text)
    expect(await statementsOf(() => repository.search(query))).toBeLessThanOrEqual(STATEMENTS)
    expect(await statementsOf(() => repository.count(query))).toBeLessThanOrEqual(STATEMENTS)
  })

  test('has the audit log and the list of workspaces from a few statements', async () => {
    const audit = { filter: { actor: 'x' }, workspaces: WORKSPACES, limit: 200, afterId: null }
    expect(await statementsOf(() => searchAudit(database, audit))).toBeLessThanOrEqual(STATEMENTS)
    const list = { workspaceIds: WORKSPACES, text: null, limit: 200, afterId: null, maxKeysCounted: null }
    expect(await statementsOf(() => repository.listWorkspaces(list))).toBeLessThanOrEqual(STATEMENTS)
  })

  test('sees every key once, page by page, and their number', async () => {
    const query = queryOf({ sort: 'name', limit: '70' })
    const seen: string[] = []
    for (let after = query.after; ; ) {
      const page = await repository.search({ ...query, after })
      seen.push(...page.keys.map(({ record }) => record.name))
      const last = page.keys.at(-1)
      if (page.nextCursor === null || last === undefined) break
      after = { value: last.record.name, id: last.record.id }
    }
    expect(seen).toEqual(Array.from({ length: 300 }, (_, number) => `key ${number}`).sort())
    expect(await repository.count(query)).toBe(300)
  })
})
