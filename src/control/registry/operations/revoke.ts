import { planRevocation } from '../../../domain/revoke-key.ts'
import type { Registry } from '../registry.ts'
import { auditRevocation } from './audit.ts'
import { type Asked, type Attempt, type Done, perform, type Refusal } from './operation.ts'

/** A key that was revoked, or had expired, before stays as it is. */
export function revokeKey(registry: Registry, keyId: string, asked: Asked): Promise<Done | Refusal> {
  return perform(registry, asked, () => planOnce(registry, keyId, asked))
}

async function planOnce(
  { repository, clock, newAuditId }: Registry,
  keyId: string,
  { caller }: Asked,
): Promise<Attempt | Refusal> {
  const key = await repository.findById(keyId)
  if (key === null) return { kind: 'unknown_key' }
  const { digest } = key
  const nowMs = clock.wallMs()
  const record = planRevocation(key.record, nowMs)
  const unchanged = record === key.record
  const replaced = unchanged ? null : { record, digest }
  const entry = () => auditRevocation(record, 'request', { id: newAuditId(nowMs), atMs: nowMs, caller })
  return {
    kind: 'planned',
    issued: null,
    replaced,
    audit: unchanged ? [] : [entry()],
    record,
    digest,
    secret: null,
  }
}
