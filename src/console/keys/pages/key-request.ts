import type { FastifyRequest } from 'fastify'
import type { Clock } from '../../../domain/clock.ts'
import { keyState } from '../../../domain/key/key-record.ts'
import type { AuditEntry } from '../../platform/audit/entries.ts'
import { notFound, parameterOf, workspaceOf } from '../../platform/html/page-request.ts'
import { isKeyId } from '../../platform/ids.ts'
import type { KeyRepository, StoredKey } from '../rows/key-repository.ts'
import type { KeyView } from './key-parts.ts'

/** What pages read of the registry. */
export interface RegistryReader {
  readonly repository: KeyRepository
  readonly clock: Clock
}

/** The key of the path, in the workspace of the path. @throws if the person may not see it */
export async function keyOf(request: FastifyRequest, { repository }: RegistryReader): Promise<StoredKey> {
  const workspaceId = workspaceOf(request)
  const keyId = parameterOf(request, 'keyId')
  const key = isKeyId(keyId) ? await repository.findById(keyId) : null
  if (key === null || key.record.workspaceId !== workspaceId) throw notFound()
  request.keyId = keyId
  return key
}

export async function viewsOf(
  keys: readonly Pick<StoredKey, 'record'>[],
  { repository, clock }: RegistryReader,
): Promise<KeyView[]> {
  const uses = await repository.lastUses(keys.map(({ record }) => record.id))
  const nowMs = clock.wallMs()
  return keys.map(({ record }) => ({
    record,
    state: keyState(record, nowMs),
    lastUsedAtMs: uses.get(record.id) ?? null,
  }))
}

export async function viewOf(record: KeyView['record'], reader: RegistryReader): Promise<KeyView> {
  const [view] = await viewsOf([{ record }], reader)
  if (view === undefined) throw new Error('viewsOf must return one view for each key')
  return view
}

/** After a change: nothing is read, since what follows the commit must not fail. @param before the same key, or null if it is new */
export function viewAfter(
  record: KeyView['record'],
  before: KeyView | null,
  { clock }: RegistryReader,
): KeyView {
  return { record, state: keyState(record, clock.wallMs()), lastUsedAtMs: before?.lastUsedAtMs ?? null }
}

/** Name of the person who issued a key; null if the audit log has none. */
export function creatorOf(origin: AuditEntry | null): string | null {
  const by = origin?.detail['by']
  return typeof by === 'string' ? by : null
}
