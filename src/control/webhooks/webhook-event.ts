import { type KeyRecord, keyState } from '../../domain/key-record.ts'
import { toRecordJson } from '../../domain/wire.ts'
import type { AuditAction, AuditEntry } from '../registry/operations/audit.ts'
import type { Attempt } from '../registry/operations/operation.ts'

export type NoticeType = AuditAction | 'key.expiring' | 'key.expired'

/** Something that happened to a key, to be told to the webhook. */
export interface Notice {
  readonly id: string
  readonly workspaceId: string
  readonly keyId: string
  readonly type: NoticeType
  /** The same for what is the same: noted once, however often it is noticed. */
  readonly occasion: string
  readonly atMs: number
  /** What is sent, and signed: JSON. Never with a secret or a digest. */
  readonly body: string
}

/** Days before a key expires on which that is told, latest first. */
export const WARNING_DAYS = [1, 3, 14] as const

/** What an operation is to be told as: as much as stands in the audit log. Nothing where it changed nothing. */
export function noticesOfChange({ audit, issued, replaced }: Attempt): Notice[] {
  const about = replaced ?? issued
  if (about === null) return []
  const successor = replaced === null ? null : issued
  return audit.map(entry =>
    noticeOf(entry.action, about.record, {
      id: entry.id.replace(/^audit_/, 'msg_'),
      occasion: entry.id,
      atMs: entry.atMs,
      data: { actor: entry.actor, ...ownData(entry, successor?.record ?? null) },
    }),
  )
}

function ownData({ action, atMs, detail }: AuditEntry, successor: KeyRecord | null): object {
  if (action === 'key.rotated' && successor !== null) return { successor: answeredKey(successor, atMs) }
  return action === 'key.revoked' ? { reason: detail['reason'] } : {}
}

/** @param id new @param days until when at the latest; 0 where the key has expired */
export function noticeOfExpiry(
  record: KeyRecord,
  { id, days, nowMs }: { id: string; days: number; nowMs: number },
): Notice {
  const type = days === 0 ? 'key.expired' : 'key.expiring'
  const data = days === 0 ? {} : { withinDays: days }
  return noticeOf(type, record, { id, occasion: expiryOccasion(record, days), atMs: nowMs, data })
}

/** A key whose expiry was moved is told of anew. */
export function expiryOccasion({ id, expiresAtMs }: KeyRecord, days: number): string {
  return `${id}:${expiresAtMs}:${days}`
}

interface Occurrence {
  readonly id: string
  readonly occasion: string
  readonly atMs: number
  readonly data: object
}

function noticeOf(type: NoticeType, record: KeyRecord, { id, occasion, atMs, data }: Occurrence): Notice {
  const timestamp = new Date(atMs).toISOString()
  const body = JSON.stringify({ type, timestamp, data: { key: answeredKey(record, atMs), ...data } })
  return { id, workspaceId: record.workspaceId, keyId: record.id, type, occasion, atMs, body }
}

function answeredKey(record: KeyRecord, atMs: number): object {
  return { ...toRecordJson(record), state: keyState(record, atMs) }
}
