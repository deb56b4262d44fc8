import { createGatewayRows, createRegionRows, type GatewayRows } from '../../src/console/announcing/index.ts'
import type { PendingChange, PendingChanges } from '../../src/console/announcing/outbox-rows.ts'
import type { RegionRows } from '../../src/console/announcing/region-rows.ts'
import type { Change } from '../../src/console/keys/rows/commit.ts'
import { type KeyRows, openKeyRows } from '../../src/console/keys/rows/key-rows.ts'
import type { SearchBounds } from '../../src/console/keys/search/search-keys.ts'
import type { AuditedDatabase } from '../../src/console/platform/audit/mac.ts'
import { listWorkspaces, type WorkspacePage, type WorkspaceQuery } from '../../src/console/workspaces/rows.ts'
import type { Clock } from '../../src/domain/clock.ts'
import type { StoredKey } from '../../src/domain/key/key-record.ts'
import { DEFAULT_REGION } from '../../src/domain/region.ts'
import { openDatabase } from './open-database.ts'

/** What a console reads and writes of keys: each method of its surfaces, by name. */
export type KeyRepository = Pick<KeyRows, 'commit'> &
  KeyRows['stored'] &
  KeyRows['uses'] &
  KeyRows['history'] &
  Omit<KeyRows['search'], 'find'> & { readonly search: KeyRows['search']['find'] } & KeyRows['plans'] &
  KeyRows['bulk'] &
  KeyRows['responses']

/** The same, what gateways report, what waits for regions, and the outbox of the region `default`. */
export type Repository = KeyRepository &
  RegionRows &
  GatewayRows &
  PendingChanges &
  Pick<AuditedDatabase, 'close'> & { listWorkspaces(query: WorkspaceQuery): Promise<WorkspacePage> }

export function createRepository(
  database: AuditedDatabase,
  clock: Clock,
  consoleId = 'console-1',
  bounds?: SearchBounds,
): Repository {
  const now = () => clock.wallMs()
  const { commit, search, stored, uses, history, plans, bulk, responses } = openKeyRows(
    { database, clock },
    bounds,
  )
  const [regions, gateways] = [
    createRegionRows({ database, consoleId, now }),
    createGatewayRows(database, now),
  ]
  const { find, ...counts } = search
  return {
    ...{ ...regions.pendingIn(DEFAULT_REGION), ...regions, ...gateways },
    ...{ ...stored, ...uses, ...history, ...plans, ...bulk, ...responses, ...counts },
    ...{ commit, search: find },
    listWorkspaces: (query: WorkspaceQuery) => listWorkspaces({ database, search }, query),
    async purge() {
      for (const surface of [responses, gateways, regions]) await surface.purge()
    },
    close: database.close,
  }
}

export async function openRepository(url: string, clock: Clock, me = 'console-1'): Promise<Repository> {
  return createRepository(await openDatabase(url), clock, me)
}

/** The surfaces that operations on keys use, all of the same repository. */
export function surfacesOf(
  repository: KeyRepository & GatewayRows,
): KeyRows & { readonly gateways: GatewayRows } {
  const { commit } = repository
  const search = { ...repository, find: repository.search }
  const same = { stored: repository, uses: repository, history: repository, plans: repository }
  return { ...same, bulk: repository, responses: repository, gateways: repository, commit, search }
}

const NOTHING: Change = { issued: null, replaced: null, audit: [], response: null }

/** @returns the pending change; null if the hint is taken */
export function insert(
  repository: Pick<KeyRepository, 'commit'>,
  issued: StoredKey,
): Promise<PendingChange | null> {
  return commit(repository, { issued })
}

/** @returns the pending change; null if another writer was faster */
export function replace(
  repository: Pick<KeyRepository, 'commit'>,
  replaced: StoredKey,
): Promise<PendingChange | null> {
  return commit(repository, { replaced })
}

async function commit(
  repository: Pick<KeyRepository, 'commit'>,
  change: Partial<Change>,
): Promise<PendingChange | null> {
  const outcome = await repository.commit({ ...NOTHING, ...change })
  return outcome.kind === 'committed' ? (outcome.pending[0] ?? null) : null
}
