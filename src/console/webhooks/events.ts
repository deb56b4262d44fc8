import type { Config } from '../../config/schema/schema.ts'
import { type KeyRecord, keyState } from '../../domain/key/key-record.ts'
import { toRecordJson } from '../../domain/wire.ts'
import { isLeak, type KeyAction, type KeyAuditEntry } from '../platform/audit/entries.ts'
import { nearLimitJson, type ReachedLimit } from '../usage/index.ts'
import type { ReceiverKind, WebhookEvent } from './rows.ts'

export type WebhookEventType =
  | KeyAction
  | 'key.expiring'
  | 'key.expired'
  | 'limit.approaching'
  | 'limit.reached'
  | 'test'

/** Settings of a configured webhook. */
export type OperatorWebhook = Config['console']['webhook'] & { readonly url: string; readonly secret: string }

export function isWebhookConfigured(webhook: Config['console']['webhook']): webhook is OperatorWebhook {
  return webhook.url !== undefined && webhook.secret !== undefined
}

/** Who receives events of keys: the operator, workspaces with a webhook of their own, both or neither. */
export function configuredReceivers({ console, webhooks }: Config): readonly ReceiverKind[] {
  const toOperator: ReceiverKind[] = isWebhookConfigured(console.webhook) ? ['operator'] : []
  return webhooks.workspaces.enabled ? [...toOperator, 'workspace'] : toOperator
}

/** A change of a key, as far as events tell of it. */
interface EventfulChange {
  readonly audit: readonly KeyAuditEntry[]
  readonly issued: { readonly record: KeyRecord } | null
  readonly replaced: { readonly record: KeyRecord } | null
  readonly record: KeyRecord
}

/** Days before expiry on which an event is sent, latest first. */
export const WARNING_DAYS = [1, 3, 14] as const

const MINUTE_MS = 60_000

/** For each receiver, one event for each audit entry of the change; none if it changed nothing. */
export function createChangeEvents(
  { audit, issued, replaced, record }: EventfulChange,
  receivers: readonly ReceiverKind[],
): WebhookEvent[] {
  const about = (replaced ?? issued)?.record ?? record
  const successor = replaced === null ? null : issued
  return receivers.flatMap(receiver =>
    audit.map(entry => {
      const data = { actor: entry.actor, ...actionData(entry, successor?.record ?? null) }
      const own = { id: entry.id.replace(/^audit_/, 'msg_'), deduplicationKey: entry.id }
      return { ...createEvent(entry.action, about, { ...own, atMs: entry.atMs, data }), receiver }
    }),
  )
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
  receiver: ReceiverKind,
): WebhookEvent {
  const type = days === 0 ? 'key.expired' : 'key.expiring'
  const data = days === 0 ? {} : { withinDays: days }
  // Holds the expiry, so that a key whose expiry moved is announced again. `findExpiringKeys` writes the same text.
  const deduplicationKey = `${record.id}:${record.expiresAtMs}:${days}`
  return { ...createEvent(type, record, { id, deduplicationKey, atMs: nowMs, data }), receiver }
}

/** Storing the use of a limit decides that this is its one event. */
export function createLimitEvent({ row, percent }: ReachedLimit, id: string): Omit<WebhookEvent, 'receiver'> {
  const type: WebhookEventType = percent === 100 ? 'limit.reached' : 'limit.approaching'
  const { workspace_id: workspaceId, key_id: keyId, reported_at_ms: atMs } = row
  const data = { ...nearLimitJson(row), windowSeconds: row.window_seconds || null, percent }
  const body = JSON.stringify({ type, timestamp: new Date(atMs).toISOString(), data })
  const deduplicationKey = `limit:${row.id}:${row.ends_at_ms}:${percent}`
  return { id, workspaceId, keyId, type, deduplicationKey, atMs, body }
}

/** At most one a minute for each workspace. */
export function createTestEvent(
  workspaceId: string,
  { id, atMs }: { id: string; atMs: number },
  receiver: ReceiverKind,
): WebhookEvent {
  const timestamp = new Date(atMs).toISOString()
  return {
    receiver,
    id,
    workspaceId,
    keyId: '',
    type: 'test',
    deduplicationKey: `test:${workspaceId}:${Math.floor(atMs / MINUTE_MS)}`,
    atMs,
    body: JSON.stringify({ type: 'test', timestamp, data: { workspaceId } }),
  }
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
