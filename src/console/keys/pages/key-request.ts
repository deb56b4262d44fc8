import type { FastifyRequest } from 'fastify'
import type { Config } from '../../../config/schema/schema.ts'
import type { Clock } from '../../../domain/clock.ts'
import { keyState, type StoredKey } from '../../../domain/key/key-record.ts'
import type { AuditEntry } from '../../platform/audit/entries.ts'
import { isKeyId } from '../../platform/database/ids.ts'
import type { Problems } from '../../platform/html/form-parts.ts'
import { notFound, parameterOf, workspaceOf } from '../../platform/html/page-request.ts'
import type { UsageService } from '../../usage/index.ts'
import type { KeyParts } from '../registry.ts'
import type { KeyRepository } from '../rows/key-repository.ts'
import type { KeyView } from './key-parts.ts'

/** What the pages of keys use. */
export interface KeyPageParts extends KeyParts {
  readonly usage: Pick<UsageService, 'stores' | 'queries'>
  /** Each with a description of what it grants. */
  readonly scopes: Readonly<Record<string, string>>
  readonly routes: Config['routes']
  /** The API's public URL; null if none is configured. */
  readonly gatewayUrl: string | null
}

/** What pages read of the registry. */
interface RegistryReader {
  readonly repository: Pick<KeyRepository, 'findById' | 'lastUses'>
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

export async function viewOf(
  record: KeyView['record'],
  { repository, clock }: RegistryReader,
): Promise<KeyView> {
  const uses = await repository.lastUses([record.id])
  return { record, state: keyState(record, clock.wallMs()), lastUsedAtMs: uses.get(record.id) ?? null }
}

/** After a change: nothing is read, since what follows the commit must not fail. @param before the same key, or null if it is new */
export function viewAfter(
  record: KeyView['record'],
  before: KeyView | null,
  { clock }: Pick<RegistryReader, 'clock'>,
): KeyView {
  return { record, state: keyState(record, clock.wallMs()), lastUsedAtMs: before?.lastUsedAtMs ?? null }
}

/** Name of the person who issued a key; null if the audit log has none. */
export function creatorOf(origin: AuditEntry | null): string | null {
  const by = origin?.detail['by']
  return typeof by === 'string' ? by : null
}

/** The form's names for fields of the registry, where they differ. */
const FORM_NAMES: Readonly<Record<string, string>> = {
  expiresAt: 'date',
  expiresInDays: 'expiry',
  overlapSeconds: 'overlap',
}

/** A field that the registry rejects, although the form found no problem, for example because settings changed meanwhile. */
export function problemsOf({
  field,
  expected,
}: {
  readonly field: string
  readonly expected: string
}): Problems {
  return new Map([[FORM_NAMES[field] ?? field, `This must be ${expected}`]])
}
