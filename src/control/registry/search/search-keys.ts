import type { Kysely } from 'kysely'
import type { Tables } from '../database/tables.ts'
import { encodeCursor } from './key-cursor.ts'
import { hasConditions, type KeyPosition, type KeyQuery, type KeySearchPage } from './key-query.ts'
import { mergeStretches } from './merge-stretches.ts'
import { examineKeys, type PlacedKey, type SearchContext, type Stretch } from './ordered-keys.ts'

/** Keys that one page examines at most, in all workspaces together: some milliseconds. */
const MAX_EXAMINED = 2500

/** Examines keys in order until the page is full, and no more than the bound. */
export async function searchKeys(
  database: Kysely<Tables>,
  query: KeyQuery,
  context: SearchContext,
): Promise<KeySearchPage> {
  const workspaceIds = query.workspaceIds ?? [null]
  const found: PlacedKey[] = []
  let after = query.after
  let left = MAX_EXAMINED
  // A first, short stretch is enough where many keys match.
  let count = hasConditions(query) ? 4 * (query.limit + 1) : query.limit + 1
  for (;;) {
    const stretches: Stretch[] = []
    for (const workspaceId of workspaceIds) {
      stretches.push(await examineKeys(database, { query, workspaceId, after, count }, context))
    }
    const stretch = mergeStretches(stretches, query.descending)
    found.push(...stretch.found)
    left -= count * workspaceIds.length
    if (found.length > query.limit || stretch.end === null) return pageOf(query, found, null)
    if (left <= 0) return pageOf(query, found, stretch.end)
    after = stretch.end
    count = Math.max(query.limit + 1, Math.ceil(left / workspaceIds.length))
  }
}

/** @param end where a page that is not full ends; null: at the end of the list */
function pageOf(query: KeyQuery, found: readonly PlacedKey[], end: KeyPosition | null): KeySearchPage {
  const shown = found.slice(0, query.limit)
  const next = found.length > query.limit ? (shown.at(-1)?.position ?? null) : end
  return { keys: shown.map(({ key }) => key), nextCursor: next === null ? null : encodeCursor(query, next) }
}
