import type { StoredKey } from '../../domain/key/key-record.ts'
import type { Caller } from '../platform/access/principal.ts'
import { auditRevocation } from '../platform/audit/entries.ts'
import { type BulkContext, type BulkOutcome, type BulkRegistry, changeLiveKeys } from './bulk-change.ts'

/** Revokes every key of a workspace that was committed before the first call and has not ended. */
export function revokeAllKeys(
  registry: BulkRegistry,
  workspaceId: string,
  context: BulkContext,
): Promise<BulkOutcome> {
  const describeChange = (key: StoredKey) => recordRevocation(registry, key, context.caller)
  const changeSome = (ids: readonly string[]) => registry.repository.revokeKeys({ ids, describeChange })
  return registry.count('revoke_all', () => changeLiveKeys(registry, workspaceId, { changeSome }, context))
}

function recordRevocation(
  { newAuditId, createEvents }: BulkRegistry,
  { record, digest }: StoredKey,
  caller: Caller,
) {
  const atMs = record.revokedAtMs ?? 0
  const audit = auditRevocation(record, 'bulk', { id: newAuditId(atMs), atMs, caller })
  const change = { kind: 'planned', issued: null, record, digest, secret: null } as const
  return { audit, events: createEvents({ ...change, replaced: { record, digest }, audit: [audit] }) }
}
