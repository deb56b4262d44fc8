import type { Kysely } from 'kysely'
import { mostFirstRows } from '../../platform/database/first-rows.ts'
import type { Tables } from '../../platform/database/tables.ts'
import { findCandidates } from './candidate-keys.ts'
import { encodeCursor } from './key-cursor.ts'
import { hasConditions, type KeyQuery, type KeySearchPage } from './key-query.ts'
import {
  examineKeys,
  type PlacedKey,
  type SearchContext,
  type SearchedRange,
  sortKeys,
} from './ordered-keys.ts'

/**
 * Examines keys in order until the page is full. If so few match that it stays short, and an index knows them, the page
 * is made of those; otherwise it stays short.
 */
export async function searchKeys(
  database: Kysely<Tables>,
  query: KeyQuery,
  context: SearchContext,
): Promise<KeySearchPage> {
  const { limit } = query
  // Finding where each of many workspaces goes on is work too.
  const places = (query.workspaceIds?.length ?? 1) - 1
  const most = mostFirstRows(query.workspaceIds, context.dialect)
  const found: PlacedKey[] = []
  let after = query.after
  let left = context.bounds.examined
  // A first, short range is enough where many keys match.
  let count = hasConditions(query) ? 4 * (limit + 1) : limit + 1
  while (left > 0) {
    const range = await examineKeys(database, query, { after, count }, context)
    found.push(...range.found)
    if (found.length > limit || range.end === null) return pageOf(query, { found, end: null })
    left -= count + places
    after = range.end
    count = Math.max(limit + 1, Math.min(left - places, most))
  }
  const ids = await findCandidates(database, query, context)
  if (ids === null) return pageOf(query, { found, end: after })
  return pageOf(query, await sortKeys(database, ids, query, context))
}

function pageOf(query: KeyQuery, { found, end }: SearchedRange): KeySearchPage {
  const shown = found.slice(0, query.limit)
  const next = found.length > query.limit ? (shown.at(-1)?.position ?? null) : end
  return { keys: shown.map(({ key }) => key), nextCursor: next === null ? null : encodeCursor(query, next) }
}
