import type { Clock } from '../../../domain/clock.ts'
import type { Database } from '../../platform/database/database.ts'
import {
  countByState,
  countInWorkspace,
  countKeys,
  countLive,
  countStates,
  countUnused,
  type ExpiryBounds,
} from './count-keys.ts'
import type { KeyQuery, KeySelector } from './key-query.ts'
import { type SearchBounds, searchKeys } from './search-keys.ts'

/** Finding and counting keys by what they are like. */
export type KeySearch = ReturnType<typeof createKeySearch>

export function createKeySearch(database: Database, clock: Clock, bounds: SearchBounds) {
  const { reader, dialect, hasTextIndex } = database
  const now = () => clock.wallMs()
  const context = () => ({ nowMs: now(), dialect, hasTextIndex, bounds })
  return {
    find: (query: KeyQuery) => searchKeys(reader, query, context()),
    count: (selector: KeySelector) => countKeys(reader, selector, { ...context(), clock }),
    countByState: (bounds: ExpiryBounds) => countByState(reader, bounds, dialect),
    countStates: (workspaceIds: readonly string[], maxCounted: number | null) =>
      countStates(reader, workspaceIds, maxCounted, context()),
    countInWorkspace: (workspaceId: string) => countInWorkspace(reader, workspaceId, context()),
    countLive: (workspaceId: string) => countLive(reader, workspaceId, now()),
    countUnused: (workspaceId: string) => countUnused(reader, workspaceId, now()),
  }
}
