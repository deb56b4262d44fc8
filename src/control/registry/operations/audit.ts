import type { KeyRecord } from '../../../domain/key/key-record.ts'
import type { Rotation } from '../../../domain/key/rotate-key.ts'

export type AuditAction = 'key.issued' | 'key.rotated' | 'key.revoked'

/** Why a key was revoked: on request, or by a rotation without overlap. */
export type RevocationReason = 'request' | 'rotation'

/** Who requested a change, and from where. */
export interface Caller {
  readonly actor: string
  /** A person's display name; programs have none. */
  readonly name?: string
  /** The client's address, as reported by a trusted proxy or taken from the connection. */
  readonly address: string
  readonly requestId: string
}

export interface AuditEntry {
  /** Grows with time. */
  readonly id: string
  readonly workspaceId: string
  readonly atMs: number
  readonly actor: string
  readonly action: AuditAction
  readonly keyId: string
  readonly detail: AuditDetail
}

/** Small; it never holds anything that could be used as a key. */
export type AuditDetail = Readonly<Record<string, string | number | readonly string[]>>

export interface AuditPage {
  readonly entries: readonly AuditEntry[]
  /** Where the next page starts; null on the last. */
  readonly nextAfterId: string | null
}

export interface AuditContext {
  readonly id: string
  readonly atMs: number
  readonly caller: Caller
}

export function auditIssue(record: KeyRecord, context: AuditContext): AuditEntry {
  const { name, scopes } = record
  return entryOf('key.issued', record, context, { name, scopes, expiresAt: instant(record.expiresAtMs) })
}

/** An entry about the old key that names the successor. */
export function auditRotation(
  { replaced, successor, overlapSeconds }: Rotation,
  context: AuditContext,
): AuditEntry {
  return entryOf('key.rotated', replaced, context, {
    name: replaced.name,
    scopes: replaced.scopes,
    overlapSeconds,
    expiresAt: instant(replaced.expiresAtMs),
    successor: successor.id,
    successorExpiresAt: instant(successor.expiresAtMs),
  })
}

export function auditRevocation(
  { name, scopes, ...record }: KeyRecord,
  reason: RevocationReason,
  context: AuditContext,
): AuditEntry {
  return entryOf('key.revoked', record, context, { name, scopes, reason })
}

function entryOf(
  action: AuditAction,
  { id: keyId, workspaceId }: Pick<KeyRecord, 'id' | 'workspaceId'>,
  { id, atMs, caller }: AuditContext,
  about: AuditDetail,
): AuditEntry {
  const by = caller.name === undefined ? {} : { by: caller.name }
  const detail = { ...about, ...by, from: caller.address, requestId: caller.requestId }
  return { id, workspaceId, atMs, actor: caller.actor, action, keyId, detail }
}

function instant(ms: number): string {
  return new Date(ms).toISOString()
}
