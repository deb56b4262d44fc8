import type { KeyAction } from '../platform/audit/entries.ts'

export type WebhookEventType = KeyAction | 'key.expiring' | 'key.expired' | 'test'

/** Whose webhook receives an event: the operator's, or that of the key's workspace. */
export type EventReceiver = 'operator' | 'workspace'

/** Something that happened to a key, or a test, to be sent to a webhook. */
export interface WebhookEvent {
  readonly receiver: EventReceiver
  readonly id: string
  readonly workspaceId: string
  /** Empty for a test. */
  readonly keyId: string
  readonly type: WebhookEventType
  /** Equal for the same occurrence, so that it is stored once even if several consoles notice it. */
  readonly deduplicationKey: string
  readonly atMs: number
  /** The signed JSON body. It never holds a secret or a digest. */
  readonly body: string
}

/** An event that is due now, with the number of attempts so far. */
export interface DueDelivery {
  readonly id: string
  readonly body: string
  readonly attempts: number
}
