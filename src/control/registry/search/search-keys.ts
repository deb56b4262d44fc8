import type { Kysely } from 'kysely'
import type { Tables } from '../database/tables.ts'
import { findCandidates } from './candidate-keys.ts'
import { encodeCursor } from './key-cursor.ts'
import { hasConditions, type KeyPosition, type KeyQuery, type KeySearchPage } from './key-query.ts'
import { mergeSearchedRanges } from './merge-searched-ranges.ts'
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
  const { limit, workspaceIds } = query
  const parts = workspaceIds?.length ?? 1
  const found: PlacedKey[] = []
  let after = query.after
  let left = context.bounds.examined
  // A first, short range is enough where many keys match.
  let count = hasConditions(query) ? 4 * (limit + 1) : limit + 1
  while (left > 0) {
    const range = await examine(database, query, { after, count }, context)
    found.push(...range.found)
    if (found.length > limit || range.end === null) return pageOf(query, { found, end: null })
    left -= count * parts
    after = range.end
    count = Math.max(limit + 1, Math.ceil(left / parts))
  }
  const rare = await findRare(database, query, context)
  return pageOf(query, rare ?? { found, end: after })
}

async function examine(
  database: Kysely<Tables>,
  query: KeyQuery,
  { after, count }: { after: KeyPosition | null; count: number },
  context: SearchContext,
): Promise<SearchedRange> {
  const ranges: SearchedRange[] = []
  for (const workspaceId of query.workspaceIds ?? [null]) {
    ranges.push(await examineKeys(database, { query, workspaceId, after }, count, context))
  }
  return mergeSearchedRanges(ranges, query.descending)
}

/** @returns null if no index knows them all */
async function findRare(
  database: Kysely<Tables>,
  query: KeyQuery,
  context: SearchContext,
): Promise<SearchedRange | null> {
  const ranges: SearchedRange[] = []
  for (const workspaceId of query.workspaceIds ?? [null]) {
    const ids = await findCandidates(database, query, workspaceId, context)
    if (ids === null) return null
    ranges.push(await sortKeys(database, ids, { query, workspaceId, after: query.after }, context))
  }
  return mergeSearchedRanges(ranges, query.descending)
}

function pageOf(query: KeyQuery, { found, end }: SearchedRange): KeySearchPage {
  const shown = found.slice(0, query.limit)
  const next = found.length > query.limit ? (shown.at(-1)?.position ?? null) : end
  return { keys: shown.map(({ key }) => key), nextCursor: next === null ? null : encodeCursor(query, next) }
}
