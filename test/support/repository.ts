import { type AnnouncingRepository, createAnnouncingRepository } from '../../src/console/announcing/index.ts'
import type { PendingChange, PendingChanges } from '../../src/console/announcing/outbox-rows.ts'
import type { Change } from '../../src/console/keys/rows/commit.ts'
import { createKeyRepository, type KeyRepository } from '../../src/console/keys/rows/key-repository.ts'
import type { SearchBounds } from '../../src/console/keys/search/search-keys.ts'
import type { AuditedDatabase } from '../../src/console/platform/audit/mac.ts'
import { listWorkspaces, type WorkspacePage, type WorkspaceQuery } from '../../src/console/workspaces/rows.ts'
import type { Clock } from '../../src/domain/clock.ts'
import type { StoredKey } from '../../src/domain/key/key-record.ts'
import { DEFAULT_REGION } from '../../src/domain/region.ts'
import { openDatabase } from './open-database.ts'

/** What a console reads and writes: keys, what waits for regions, and the outbox of the region `default`. */
export type Repository = KeyRepository &
  AnnouncingRepository &
  PendingChanges &
  Pick<AuditedDatabase, 'close'> & { listWorkspaces(query: WorkspaceQuery): Promise<WorkspacePage> }

export function createRepository(
  database: AuditedDatabase,
  clock: Clock,
  consoleId = 'console-1',
  bounds?: SearchBounds,
): Repository {
  const keys = createKeyRepository({ database, clock }, bounds)
  const announcing = createAnnouncingRepository({ database, consoleId, now: () => clock.wallMs() })
  return {
    ...announcing.pendingIn(DEFAULT_REGION),
    ...announcing,
    ...keys,
    listWorkspaces: (query: WorkspaceQuery) => listWorkspaces({ database, repository: keys }, query),
    async purge() {
      await keys.purge()
      await announcing.purge()
    },
    close: database.close,
  }
}

export async function openRepository(url: string, clock: Clock, me = 'console-1'): Promise<Repository> {
  return createRepository(await openDatabase(url), clock, me)
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
