import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  decodeCursor,
  KEY_SORTS,
  type KeyQuery,
  parseKeyQuery,
} from '../../../src/console/keys/search/key-query.ts'
import type { StoredKey } from '../../../src/domain/key/key-record.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { insert, openRepository, type Repository, replace } from '../../support/repository.ts'
import { runs } from '../../support/runs.ts'
import { NOW_MS, someKey } from '../../support/stored-keys.ts'

const DAY_MS = 86_400_000
const someName = fc.string({ maxLength: 3, minLength: 1, unit: fc.constantFrom('a', 'b', 'ü', '😀') })
const someAction = fc.oneof(
  fc.record({ kind: fc.constant('issue' as const), name: someName }),
  fc.record({ kind: fc.constant('rename' as const), index: fc.nat(19), name: someName }),
  fc.record({
    kind: fc.constant('shorten' as const),
    index: fc.nat(19),
    days: fc.integer({ min: 1, max: 80 }),
  }),
  fc.record({ kind: fc.constant('use' as const), index: fc.nat(19) }),
)
type Action = typeof someAction extends fc.Arbitrary<infer Value> ? Value : never

/** What a reader of several pages can rely on, for every database. */
export function describeKeyWalks(
  name: string,
  newDatabase: () => Promise<string>,
  numRuns = runs(4, 15),
): void {
  describe(`reading a list page by page in ${name} while keys are issued, edited and used`, () => {
    let repository: Repository
    let workspaces = 0
    beforeAll(async () => {
      repository = await openRepository(await newDatabase(), new ManualClock())
    })
    afterAll(() => repository.close())

    it.each(KEY_SORTS.flatMap(sort => [sort, `-${sort}`]))(
      'by %s shows each key once, unless its place in the order changed',
      async sort => {
        const names = fc.array(someName, { minLength: 20, maxLength: 20 })
        const actions = fc.array(fc.array(someAction, { maxLength: 3 }), { minLength: 10, maxLength: 10 })
        await fc.assert(
          fc.asyncProperty(names, actions, fc.integer({ min: 1, max: 9 }), async (names, actions, limit) => {
            const walk = new Walk(repository, `ws_${++workspaces}`)
            await walk.issueAll(names)
            const shown = await walk.read(queryOf(sort), limit, actions)
            const [moved, stayed] = [walk.movedIn(sort), walk.idsNotMovedIn(sort)]
            expect(shown.filter(id => stayed.has(id)).sort()).toEqual([...stayed].sort())
            // Uses only move a key towards later, edits its expiry only towards earlier.
            const twice = shown.filter((id, at) => shown.indexOf(id) !== at)
            const skipped = [...moved].filter(id => !shown.includes(id))
            if (sort === 'expiresAt' || sort === '-lastUsedAt') expect(twice).toEqual([])
            if (sort === '-expiresAt' || sort === 'lastUsedAt') expect(skipped).toEqual([])
          }),
          { numRuns },
        )
      },
    )
  })
}

class Walk {
  readonly #repository: Repository
  readonly #workspaceId: string
  readonly #keys: StoredKey[] = []
  readonly #moved = {
    createdAt: new Set<string>(),
    name: new Set<string>(),
    expiresAt: new Set<string>(),
    lastUsedAt: new Set<string>(),
  }
  #usedAtMs = NOW_MS

  constructor(repository: Repository, workspaceId: string) {
    this.#repository = repository
    this.#workspaceId = workspaceId
  }

  async issueAll(names: readonly string[]): Promise<void> {
    for (const name of names) {
      const key = someKey({ workspaceId: this.#workspaceId, name })
      await insert(this.#repository, key)
      this.#keys.push(key)
    }
  }

  /** @returns the ids as they were shown, of those that were there from the start */
  async read(query: KeyQuery, limit: number, actions: readonly (readonly Action[])[]): Promise<string[]> {
    const known = new Set(this.#keys.map(({ record }) => record.id))
    const shown: string[] = []
    let after = query.after
    for (let page = 0; ; page++) {
      const found = await this.#repository.search({
        ...query,
        workspaceIds: [this.#workspaceId],
        limit,
        after,
      })
      shown.push(...found.keys.map(({ record }) => record.id).filter(id => known.has(id)))
      if (found.nextCursor === null) return shown
      after = decodeCursor(query, found.nextCursor)
      for (const action of actions[page] ?? []) await this.#act(action)
    }
  }

  movedIn(sort: string): ReadonlySet<string> {
    return this.#moved[queryOf(sort).sort]
  }

  idsNotMovedIn(sort: string): ReadonlySet<string> {
    const moved = this.movedIn(sort)
    return new Set(this.#keys.map(({ record }) => record.id).filter(id => !moved.has(id)))
  }

  async #act(action: Action): Promise<void> {
    if (action.kind === 'issue') {
      await insert(this.#repository, someKey({ workspaceId: this.#workspaceId, name: action.name }))
      return
    }
    const key = this.#keys[action.index]
    if (key === undefined) throw new Error('An action on no key')
    const { record, digest } = key
    if (action.kind === 'use') {
      this.#usedAtMs += DAY_MS
      await this.#repository.recordUse(new Map([[record.id, this.#usedAtMs]]))
      this.#moved.lastUsedAt.add(record.id)
      return
    }
    const expiresAtMs = Math.min(record.expiresAtMs, NOW_MS + ('days' in action ? action.days : 366) * DAY_MS)
    const name = action.kind === 'rename' ? action.name : record.name
    const next = { record: { ...record, name, expiresAtMs, version: record.version + 1 }, digest }
    await replace(this.#repository, next)
    this.#keys[action.index] = next
    if (name !== record.name) this.#moved.name.add(record.id)
    if (expiresAtMs !== record.expiresAtMs) this.#moved.expiresAt.add(record.id)
  }
}

function queryOf(sort: string): KeyQuery {
  const parsed = parseKeyQuery({ sort })
  if (!parsed.ok) throw new Error(`${sort} is no order`)
  return parsed.query
}
