import { toInstant } from '../../../domain/form/instant.ts'
import { CHOSEN_FIELDS } from '../../../domain/key/key-fields.ts'
import type { EditedField, Rotation } from '../../../domain/key/key-life.ts'
import type { KeyRecord } from '../../../domain/key/key-record.ts'
import type { Caller } from '../access/principal.ts'

/** Actions on keys, each with its label on pages. */
const KEY_ACTIONS = {
  'key.issued': 'Issued',
  'key.rotated': 'Rotated',
  'key.revoked': 'Revoked',
  'key.suspended': 'Suspended',
  'key.resumed': 'Resumed',
  'key.edited': 'Edited',
  'key.imported': 'Imported',
  /** Reported as leaked, and not revoked by the report. */
  'key.reported': 'Reported as leaked',
} as const

/** Actions that concern no key. */
const ACCESS_ACTIONS = {
  'token.issued': 'Token issued',
  'token.revoked': 'Token revoked',
  'person.signed_in': 'Signed in',
  'person.signed_out': 'Signed out',
  /** An attempt to reach a workspace that the caller may not access. */
  'access.refused': 'Access refused',
  /** A backup was put in place of the database. */
  'database.restored': 'Database restored',
} as const

/** Actions on the webhook of a workspace. */
const WEBHOOK_ACTIONS = {
  'webhook.set': 'Webhook set',
  'webhook.removed': 'Webhook removed',
} as const

/** Actions on a whole workspace. */
const WORKSPACE_ACTIONS = {
  /** Of all its keys, and of those issued later. */
  'workspace.plan_changed': 'Plan of the workspace changed',
} as const

const LABELS = { ...KEY_ACTIONS, ...ACCESS_ACTIONS, ...WEBHOOK_ACTIONS, ...WORKSPACE_ACTIONS }

export type KeyAction = keyof typeof KEY_ACTIONS
export type AccessAction = keyof typeof ACCESS_ACTIONS
export type WebhookAction = keyof typeof WEBHOOK_ACTIONS
type WorkspaceAction = keyof typeof WORKSPACE_ACTIONS
export type AuditAction = KeyAction | AccessAction | WebhookAction | WorkspaceAction

export function isAuditAction(text: string): text is AuditAction {
  return Object.hasOwn(LABELS, text)
}

export const AUDIT_ACTIONS_EXPECTED = `one of ${Object.keys(LABELS).join(', ')}`

interface NamedAction {
  readonly value: string
  readonly label: string
}

const nameActions = (labels: Readonly<Record<string, string>>): readonly NamedAction[] =>
  Object.entries(labels).map(([value, label]) => ({ value, label }))

/** Each with its label. */
export const AUDIT_ACTIONS = nameActions(LABELS)
/** Of entries that a workspace can have. */
export const WORKSPACE_AUDIT_ACTIONS = nameActions({
  ...KEY_ACTIONS,
  ...WEBHOOK_ACTIONS,
  ...WORKSPACE_ACTIONS,
})

/** An action of a newer console on the same database has no label here. */
export function actionLabel(action: AuditAction): string {
  return LABELS[action] ?? action
}

/**
 * Why a key was revoked: on request, by a rotation without overlap, with all keys of its workspace, or because it was
 * revoked after the backup that was restored.
 */
type RevocationReason = 'request' | 'rotation' | 'bulk' | 'restore'
/** The reason in entries of `auditLeak`. */
const LEAK = 'leak'

/** Where a leaked key was found. */
export interface LeakFinding {
  /** An address, without anything that could be used as a key; null if the report names none. */
  readonly foundAt: string | null
  /** The kind of place; null if the report names none. */
  readonly source: string | null
}

export interface AuditEntry {
  /** Grows with time. */
  readonly id: string
  /** Null for an entry that concerns the whole installation. */
  readonly workspaceId: string | null
  readonly atMs: number
  readonly actor: string
  readonly action: AuditAction
  /** Null for an entry that concerns no key. */
  readonly keyId: string | null
  readonly detail: AuditDetail
}

export interface KeyAuditEntry extends AuditEntry {
  readonly workspaceId: string
  readonly action: KeyAction
  readonly keyId: string
}

/** Small; it never holds anything that could be used as a key. */
export type AuditDetail = Readonly<Record<string, AuditValue | AuditChanges>>

export type AuditValue = string | number | null | readonly string[]
/** The fields that an edit changed, by their public names. */
export type AuditChanges = Readonly<Record<string, { readonly old: AuditValue; readonly new: AuditValue }>>

export interface AuditContext {
  readonly id: string
  readonly atMs: number
  readonly caller: Caller
}

export function auditIssue(record: KeyRecord, context: AuditContext): KeyAuditEntry {
  return createEntry('key.issued', record, context, newKeyDetail(record))
}

export function auditImport(record: KeyRecord, context: AuditContext): KeyAuditEntry {
  const { revokedAtMs, suspendedAtMs } = record
  const revoked = revokedAtMs === null ? {} : { revokedAt: toInstant(revokedAtMs) }
  const suspended = suspendedAtMs === null ? {} : { suspendedAt: toInstant(suspendedAtMs) }
  return createEntry('key.imported', record, context, {
    ...newKeyDetail(record),
    ...revoked,
    ...suspended,
  })
}

function newKeyDetail(record: KeyRecord): AuditDetail {
  const given = CHOSEN_FIELDS.filter(field => record[field] !== null && record[field].length > 0)
  const chosen = Object.fromEntries(given.map(field => [field, record[field]]))
  return { ...chosen, scopes: record.scopes, expiresAt: toInstant(record.expiresAtMs) }
}

/** An entry about the old key that names the successor. */
export function auditRotation(
  { replaced, successor, overlapSeconds }: Rotation,
  context: AuditContext,
): KeyAuditEntry {
  return createEntry('key.rotated', replaced, context, {
    name: replaced.name,
    scopes: replaced.scopes,
    overlapSeconds,
    expiresAt: toInstant(replaced.expiresAtMs),
    successor: successor.id,
    successorExpiresAt: toInstant(successor.expiresAtMs),
  })
}

export function auditRevocation(
  { name, scopes, ...record }: KeyRecord,
  reason: RevocationReason,
  context: AuditContext,
): KeyAuditEntry {
  return createEntry('key.revoked', record, context, { name, scopes, reason })
}

/** `key.reported`: the report did not revoke the key. */
export function auditLeak(
  action: 'key.revoked' | 'key.reported',
  { name, scopes, ...record }: KeyRecord,
  { foundAt, source }: LeakFinding,
  context: AuditContext,
): KeyAuditEntry {
  return createEntry(action, record, context, { name, scopes, reason: LEAK, foundAt, source })
}

export function isLeak({ detail }: Pick<AuditEntry, 'detail'>): boolean {
  return detail['reason'] === LEAK
}

export function auditSuspension({ name, ...record }: KeyRecord, context: AuditContext): KeyAuditEntry {
  return createEntry('key.suspended', record, context, { name })
}

export function auditResumption({ name, ...record }: KeyRecord, context: AuditContext): KeyAuditEntry {
  return createEntry('key.resumed', record, context, { name })
}

/** An entry with the old and new value of each changed field. */
export function auditEdit(
  before: KeyRecord,
  after: KeyRecord,
  changed: readonly EditedField[],
  context: AuditContext,
): KeyAuditEntry {
  const changes = Object.fromEntries(
    changed.map(field =>
      field === 'expiresAtMs'
        ? ['expiresAt', { old: toInstant(before[field]), new: toInstant(after[field]) }]
        : [field, { old: before[field], new: after[field] }],
    ),
  )
  return createEntry('key.edited', after, context, { name: after.name, changes })
}

/** What an edit changed, by public names; empty for other actions. */
export function readChanges({ detail }: Pick<AuditEntry, 'detail'>): AuditChanges {
  const changes = detail['changes']
  return typeof changes === 'object' && changes !== null && !isList(changes) ? changes : {}
}

/** Array.isArray does not narrow readonly arrays. */
function isList(value: object): value is readonly unknown[] {
  return Array.isArray(value)
}

/** An entry that concerns tokens, people or refused access: no workspace and no key. */
export function auditAccess(action: AccessAction, about: AuditDetail, context: AuditContext): AuditEntry {
  return createEntry(action, { workspaceId: null, id: null }, context, about)
}

/** An entry that concerns the webhook of a workspace. @param site scheme, host and port before and after */
export function auditWebhook(
  action: WebhookAction,
  workspaceId: string,
  site: { readonly old: string | null; readonly new: string | null },
  context: AuditContext,
): AuditEntry {
  return createEntry(action, { workspaceId, id: null }, context, { changes: { site } })
}

/** An entry that concerns the plan of a workspace, and of all its keys. */
export function auditPlan(
  workspaceId: string,
  plan: { readonly old: string | null; readonly new: string | null },
  context: AuditContext,
): AuditEntry {
  return createEntry('workspace.plan_changed', { workspaceId, id: null }, context, { changes: { plan } })
}

/** @param subject the workspace and the key that it concerns, as far as it does */
function createEntry<
  Action extends AuditAction,
  WorkspaceId extends string | null,
  KeyId extends string | null,
>(
  action: Action,
  { workspaceId, id: keyId }: { readonly workspaceId: WorkspaceId; readonly id: KeyId },
  { id, atMs, caller }: AuditContext,
  about: AuditDetail,
) {
  const { actor, name, address, requestId } = caller
  const by = name === undefined ? {} : { by: name }
  const detail: AuditDetail = { ...about, ...by, from: address, requestId }
  return { id, workspaceId, atMs, actor, action, keyId, detail }
}
