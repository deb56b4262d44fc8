import type { Clock } from '../../../domain/clock.ts'
import type { AuditedDatabase } from '../../platform/audit/mac.ts'
import type { Database } from '../../platform/database/database.ts'
import { createResponses } from '../../platform/http/idempotency.ts'
import { shareBatches } from '../../platform/jobs/share-runs.ts'
import {
  countByState,
  countInWorkspace,
  countKeys,
  countLive,
  countStates,
  countUnused,
  type ExpiryBounds,
} from '../search/count-keys.ts'
import type { KeyQuery, KeySelector } from '../search/key-query.ts'
import { SEARCH_BOUNDS, type SearchBounds, searchKeys } from '../search/search-keys.ts'
import { createBulkChanges } from './bulk-rows.ts'
import { createCommit } from './commit.ts'
import { createKeyHistory } from './key-history.ts'
import { createKeyUses } from './key-uses.ts'
import { createPlans } from './plans.ts'
import { createStoredKeys } from './stored-keys.ts'

/** The system of record, bound to one database: a surface for each use of it, so that each use names the one that it needs. */
export type KeyRows = ReturnType<typeof openKeyRows>

/** Finding and counting keys by what they are like. */
export type KeySearch = KeyRows['search']

interface KeyRowsParts {
  readonly database: AuditedDatabase
  /** The time of commits. */
  readonly clock: Clock
}

export function openKeyRows({ database, clock }: KeyRowsParts, bounds: SearchBounds = SEARCH_BOUNDS) {
  const now = () => clock.wallMs()
  const target = { ...database, now }
  // On PostgreSQL a burst of what each change reads would wait for the few connections.
  const share: typeof shareBatches = database.dialect === 'postgres' ? shareBatches : read => read
  return {
    stored: createStoredKeys(database, share),
    uses: createKeyUses(database, share),
    history: createKeyHistory(database),
    search: createKeySearch(database, clock, bounds),
    plans: createPlans(target, clock),
    commit: createCommit(target),
    bulk: createBulkChanges(target),
    responses: createResponses(database, now),
  }
}

function createKeySearch({ reader, dialect, hasTextIndex }: Database, clock: Clock, bounds: SearchBounds) {
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
