import type { PendingChange } from '../../src/console/announcing/outbox-rows.ts'
import type { Change } from '../../src/console/keys/rows/commit.ts'
import { createKeyRepository, type KeyRepository } from '../../src/console/keys/rows/key-repository.ts'
import type { Clock } from '../../src/domain/clock.ts'
import type { StoredKey } from '../../src/domain/key/key-record.ts'
import { openDatabase } from './open-database.ts'

const NOTHING: Change = { issued: null, replaced: null, audit: [], response: null }

export async function openRepository(url: string, clock: Clock, me = 'console-1'): Promise<KeyRepository> {
  return createKeyRepository(await openDatabase(url), clock, me)
}

/** @returns the pending change; null if the hint is taken */
export function insert(repository: KeyRepository, issued: StoredKey): Promise<PendingChange | null> {
  return commit(repository, { issued })
}

/** @returns the pending change; null if another writer was faster */
export function replace(repository: KeyRepository, replaced: StoredKey): Promise<PendingChange | null> {
  return commit(repository, { replaced })
}

async function commit(repository: KeyRepository, change: Partial<Change>): Promise<PendingChange | null> {
  const outcome = await repository.commit({ ...NOTHING, ...change })
  return outcome.kind === 'committed' ? (outcome.pending[0] ?? null) : null
}
