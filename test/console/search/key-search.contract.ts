import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  decodeCursor,
  EVERY_KEY,
  KEY_SORTS,
  type KeyQuery,
} from '../../../src/console/keys/search/key-query.ts'
import { SEARCH_BOUNDS } from '../../../src/console/keys/search/search-keys.ts'
import type { WorkspaceSummary } from '../../../src/console/workspaces/rows.ts'
import { KEY_STATES, keyState, type StoredKey } from '../../../src/domain/key/key-record.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { openDatabase } from '../../support/open-database.ts'
import { createRepository, insert, type Repository } from '../../support/repository.ts'
import { runs } from '../../support/runs.ts'
import { NOW_MS, someKey } from '../../support/stored-keys.ts'

const DAY_MS = 86_400_000
const WORKSPACES = ['ws_1', 'ws_2', 'WS_3', 'ws.4']
const NAMES = [
  'build server',
  'Build Server',
  '100%',
  '1000',
  'a_b',
  'a-b',
  'Müller',
  'MÜLLER',
  'c:\\temp',
  'z😀',
  'z',
]

const someRecord = fc.record({
  workspaceId: fc.constantFrom(...WORKSPACES),
  name: fc.constantFrom(...NAMES),
  description: fc.constantFrom(null, 'the nightly job', 'Über 50% of it'),
  scopes: fc.constantFrom(['files:read'], ['files:read', 'workspace:read'], ['workspace:read']),
  createdAtMs: fc.integer({ min: 10, max: 15 }).map(days => NOW_MS - days * DAY_MS),
  expiresAtMs: fc.integer({ min: -2, max: 4 }).map(days => NOW_MS + days * 7 * DAY_MS),
  revokedAtMs: fc.option(fc.constant(NOW_MS - 1), { freq: 4 }),
  suspendedAtMs: fc.option(fc.constant(NOW_MS - 1), { freq: 4 }),
  replacedBy: fc.option(fc.constant('key_01JD0000000000000000000000'), { freq: 4 }),
  plan: fc.constantFrom(null, 'business', 'free'),
})
const someMoment = fc.integer({ min: -3, max: 5 }).map(days => NOW_MS + days * 7 * DAY_MS)
const rarely = { freq: 3 }
const someQuery: fc.Arbitrary<KeyQuery> = fc.record({
  workspaceIds: fc.option(fc.subarray(WORKSPACES), { freq: 2 }),
  state: fc.option(fc.constantFrom(...KEY_STATES), { freq: 2 }),
  plan: fc.option(fc.constantFrom('business', 'free', 'unknown'), { freq: 3 }),
  text: fc.option(
    fc.constantFrom(
      '%',
      '_',
      'a',
      'BUILD',
      'üll',
      'ÜLL',
      '\\',
      'nightly',
      '50%',
      'key_00',
      '0033',
      'WSK_…003',
      '…',
      '00',
      '😀',
    ),
    { freq: 2 },
  ),
  scope: fc.option(fc.constantFrom('files:read', 'files'), rarely),
  expiresBeforeMs: fc.option(someMoment, rarely),
  createdBeforeMs: fc.option(
    fc.integer({ min: 10, max: 15 }).map(days => NOW_MS - days * DAY_MS),
    rarely,
  ),
  lastUsedBeforeMs: fc.option(fc.constantFrom(NOW_MS - DAY_MS, NOW_MS), rarely),
  sort: fc.constantFrom(...KEY_SORTS),
  descending: fc.boolean(),
  limit: fc.constantFrom(1, 2, 7, 200),
  after: fc.constant(null),
})

/** `tight`: pages end early, and few searches can be answered by an index alone. */
const BOUNDS = { usual: SEARCH_BOUNDS, tight: { examined: 20, indexed: 15 } }

/** Lists and searches, for every database. */
export function describeKeySearch(
  name: string,
  newDatabase: () => Promise<string>,
  numRuns = runs(25, 80),
): void {
  describe.each(['usual', 'tight'] as const)(`searching keys in ${name} within %s bounds`, kind => {
    let repository: Repository
    const stored: { readonly key: StoredKey; readonly lastUsedAtMs: number }[] = []
    beforeAll(async () => {
      const database = await openDatabase(await newDatabase())
      repository = createRepository(database, new ManualClock(), 'console-1', BOUNDS[kind])
      for (const record of fc.sample(someRecord, { numRuns: 300, seed: 7 })) {
        const key = someKey(record)
        await insert(repository, key)
        stored.push({
          key,
          lastUsedAtMs: stored.length % 3 === 0 ? 0 : NOW_MS - (stored.length % 5) * DAY_MS,
        })
      }
      const used = stored.filter(({ lastUsedAtMs }) => lastUsedAtMs > 0)
      await repository.recordUse(new Map(used.map(({ key, lastUsedAtMs }) => [key.record.id, lastUsedAtMs])))
    })
    afterAll(() => repository.close())

    it('finds exactly the keys that a plain filter and sort of all keys finds, page by page', async () => {
      await fc.assert(
        fc.asyncProperty(someQuery, async query => {
          const found = await walk(repository, query)
          expect(found).toEqual(expectedIds(stored, query))
          expect(await repository.count(query)).toBe(found.length)
        }),
        { numRuns },
      )
    })

    it('counts none for someone who may see no workspace', async () => {
      const all = { ...EVERY_KEY, workspaceIds: [] }
      expect(await repository.count(all)).toBe(0)
    })

    it('counts the keys of a page of workspaces up to a bound, and says where there are more', async () => {
      const query = { workspaceIds: WORKSPACES, text: null, limit: 50, afterId: null }
      const all = await repository.listWorkspaces({ ...query, maxKeysCounted: null })
      const sizeOf = ({ keys }: WorkspaceSummary) => Object.values(keys).reduce((sum, count) => sum + count)
      const sizes = new Map(all.workspaces.map(each => [each.workspaceId, sizeOf(each)]))
      expect(Math.max(...sizes.values())).toBeGreaterThan(1)
      const each = Math.max(...sizes.values()) - 1
      const bounded = await repository.listWorkspaces({ ...query, maxKeysCounted: each * WORKSPACES.length })
      for (const [index, workspace] of bounded.workspaces.entries()) {
        const isLarge = (sizes.get(workspace.workspaceId) ?? 0) > each
        if (isLarge) expect(workspace.moreThan).toBe(each)
        else expect(workspace).toEqual(all.workspaces[index])
      }
    })
  })
}

async function walk(repository: Repository, query: KeyQuery): Promise<string[]> {
  const ids: string[] = []
  let after = query.after
  for (;;) {
    const page = await repository.search({ ...query, after })
    expect(page.keys.length).toBeLessThanOrEqual(query.limit)
    ids.push(...page.keys.map(({ record }) => record.id))
    if (page.nextCursor === null) return ids
    after = decodeCursor(query, page.nextCursor)
    expect(after).not.toBeNull()
  }
}

function expectedIds(
  stored: readonly { readonly key: StoredKey; readonly lastUsedAtMs: number }[],
  query: KeyQuery,
): string[] {
  const sortedValue = ({ key: { record }, lastUsedAtMs }: (typeof stored)[number]) =>
    ({
      createdAt: record.createdAtMs,
      expiresAt: record.expiresAtMs,
      name: record.name,
      lastUsedAt: lastUsedAtMs,
    })[query.sort]
  const compare = (a: (typeof stored)[number], b: (typeof stored)[number]) => {
    const [x, y] = [sortedValue(a), sortedValue(b)]
    const byValue =
      typeof x === 'number' ? x - Number(y) : Buffer.compare(Buffer.from(x), Buffer.from(String(y)))
    return byValue || (a.key.record.id < b.key.record.id ? -1 : 1)
  }
  const sorted = stored.filter(each => isExpected(each, query)).sort(compare)
  return (query.descending ? sorted.reverse() : sorted).map(({ key }) => key.record.id)
}

function isExpected(
  { key: { record }, lastUsedAtMs }: { readonly key: StoredKey; readonly lastUsedAtMs: number },
  query: KeyQuery,
): boolean {
  const text = query.text?.toLowerCase()
  const fields = [record.name, record.id, record.hint, record.description ?? '']
  return (
    (query.workspaceIds?.includes(record.workspaceId) ?? true) &&
    (query.state === null || keyState(record, NOW_MS) === query.state) &&
    (query.scope === null || record.scopes.includes(query.scope)) &&
    (query.plan === null || record.plan === query.plan) &&
    (query.expiresBeforeMs === null || record.expiresAtMs < query.expiresBeforeMs) &&
    (query.createdBeforeMs === null || record.createdAtMs < query.createdBeforeMs) &&
    (query.lastUsedBeforeMs === null || lastUsedAtMs < query.lastUsedBeforeMs) &&
    (text === undefined || fields.some(field => field.toLowerCase().includes(text)))
  )
}
