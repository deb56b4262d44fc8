import { type KeyRecord, keyState } from '../../domain/key-record.ts'
import { toRecordJson } from '../../domain/wire.ts'
import type { AuditAction } from '../registry/audit.ts'
import type { Attempt } from '../registry/operation.ts'

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

/** What an operation is to be told as; null where it changed nothing. */
export function noticeOfChange({ audit, issued, replaced }: Attempt): Notice | null {
  if (audit === null) return null
  const { id, atMs, actor, action } = audit
  const about = replaced ?? issued
  if (about === null) return null
  const successor =
    replaced !== null && issued !== null ? { successor: answeredKey(issued.record, atMs) } : {}
  return noticeOf(action, about.record, {
    id: id.replace(/^audit_/, 'msg_'),
    occasion: id,
    atMs,
    data: { actor, ...successor },
  })
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
