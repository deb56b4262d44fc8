import type { EditedField } from '../../../domain/key/edit-key.ts'
import type { KeyRecord } from '../../../domain/key/key-record.ts'
import type { Rotation } from '../../../domain/key/rotate-key.ts'

export type AuditAction =
  | 'key.issued'
  | 'key.rotated'
  | 'key.revoked'
  | 'key.suspended'
  | 'key.resumed'
  | 'key.edited'

/** Why a key was revoked: on request, by a rotation without overlap, or with all keys of its workspace. */
export type RevocationReason = 'request' | 'rotation' | 'bulk'

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
export type AuditDetail = Readonly<Record<string, AuditValue | AuditChanges>>

export type AuditValue = string | number | null | readonly string[]
/** The fields that an edit changed, by their public names. */
export type AuditChanges = Readonly<Record<string, { readonly old: AuditValue; readonly new: AuditValue }>>

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
  const { name, scopes, description, allowedCidrs } = record
  const expiresAt = instant(record.expiresAtMs)
  const described = description === null ? {} : { description }
  const restricted = allowedCidrs.length === 0 ? {} : { allowedCidrs }
  return entryOf('key.issued', record, context, { name, ...described, scopes, expiresAt, ...restricted })
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

export function auditSuspension({ name, ...record }: KeyRecord, context: AuditContext): AuditEntry {
  return entryOf('key.suspended', record, context, { name })
}

export function auditResumption({ name, ...record }: KeyRecord, context: AuditContext): AuditEntry {
  return entryOf('key.resumed', record, context, { name })
}

/** An entry with the old and new value of each changed field. */
export function auditEdit(
  before: KeyRecord,
  after: KeyRecord,
  changed: readonly EditedField[],
  context: AuditContext,
): AuditEntry {
  const changes = Object.fromEntries(
    changed.map(field => {
      const shown = SHOWN_FIELDS[field]
      return [shown.name, { old: shown.valueOf(before), new: shown.valueOf(after) }]
    }),
  )
  return entryOf('key.edited', after, context, { name: after.name, changes })
}

const SHOWN_FIELDS: Readonly<
  Record<EditedField, { readonly name: string; readonly valueOf: (record: KeyRecord) => AuditValue }>
> = {
  name: { name: 'name', valueOf: ({ name }) => name },
  description: { name: 'description', valueOf: ({ description }) => description },
  expiresAtMs: { name: 'expiresAt', valueOf: ({ expiresAtMs }) => instant(expiresAtMs) },
  allowedCidrs: { name: 'allowedCidrs', valueOf: ({ allowedCidrs }) => allowedCidrs },
}

/** What an edit changed, by public names; empty for other actions. */
export function changesOf({ detail }: Pick<AuditEntry, 'detail'>): AuditChanges {
  const changes = detail['changes']
  return typeof changes === 'object' && changes !== null && !isList(changes) ? changes : {}
}

/** Array.isArray does not narrow readonly arrays. */
function isList(value: object): value is readonly unknown[] {
  return Array.isArray(value)
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
