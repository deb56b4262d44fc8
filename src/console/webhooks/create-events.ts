import { type KeyRecord, keyState } from '../../domain/key/key-record.ts'
import { toRecordJson } from '../../domain/wire.ts'
import type { PlannedChange } from '../keys/operations/run-operation.ts'
import { isLeak, type KeyAuditEntry } from '../platform/audit/entries.ts'
import type { EventReceiver, WebhookEvent, WebhookEventType } from './webhook-event.ts'

/** Days before expiry on which an event is sent, latest first. */
export const WARNING_DAYS = [1, 3, 14] as const

/** For each receiver, one event for each audit entry of the change; none if it changed nothing. */
export function createChangeEvents(
  { audit, issued, replaced, record }: PlannedChange,
  receivers: readonly EventReceiver[],
): WebhookEvent[] {
  const about = (replaced ?? issued)?.record ?? record
  const successor = replaced === null ? null : issued
  const events = audit.map(entry =>
    createEvent(entry.action, about, {
      id: entry.id.replace(/^audit_/, 'msg_'),
      deduplicationKey: entry.id,
      atMs: entry.atMs,
      data: { actor: entry.actor, ...actionData(entry, successor?.record ?? null) },
    }),
  )
  return receivers.flatMap(receiver => events.map(event => ({ ...event, receiver })))
}

function actionData({ action, atMs, detail }: KeyAuditEntry, successor: KeyRecord | null): object {
  if (action === 'key.rotated' && successor !== null) return { successor: keyJson(successor, atMs) }
  if (action === 'key.edited') return { changes: detail['changes'] }
  if (isLeak({ detail })) return { reason: detail['reason'], foundAt: detail['foundAt'] }
  return action === 'key.revoked' ? { reason: detail['reason'] } : {}
}

/** @param days the key expires within so many days; 0 if it has expired */
export function createExpiryEvent(
  record: KeyRecord,
  { id, days, nowMs }: { id: string; days: number; nowMs: number },
  receiver: EventReceiver,
): WebhookEvent {
  const type = days === 0 ? 'key.expired' : 'key.expiring'
  const data = days === 0 ? {} : { withinDays: days }
  const deduplicationKey = expiryDeduplicationKey(record, days)
  return { ...createEvent(type, record, { id, deduplicationKey, atMs: nowMs, data }), receiver }
}

/** Holds the expiry, so that a key whose expiry moved is announced again. */
export function expiryDeduplicationKey({ id, expiresAtMs }: KeyRecord, days: number): string {
  return `${id}:${expiresAtMs}:${days}`
}

interface EventDetails {
  readonly id: string
  readonly deduplicationKey: string
  readonly atMs: number
  readonly data: object
}

function createEvent(
  type: WebhookEventType,
  record: KeyRecord,
  { id, deduplicationKey, atMs, data }: EventDetails,
): Omit<WebhookEvent, 'receiver'> {
  const timestamp = new Date(atMs).toISOString()
  const body = JSON.stringify({ type, timestamp, data: { key: keyJson(record, atMs), ...data } })
  return { id, workspaceId: record.workspaceId, keyId: record.id, type, deduplicationKey, atMs, body }
}

function keyJson(record: KeyRecord, atMs: number): object {
  return { ...toRecordJson(record), state: keyState(record, atMs) }
}
