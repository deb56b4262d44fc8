import type { KeyObject } from 'node:crypto'
import type { Clock } from '../../domain/clock.ts'
import type { Timers } from '../timers.ts'
import type { Notice } from '../webhooks/webhook-event.ts'
import type { Outbox } from './announcing/outbox.ts'
import type { KeyRepository } from './database/key-repository.ts'
import type { RandomBytes } from './operations/ids.ts'
import type { Attempt } from './operations/operation.ts'

/** What the operations on keys are made of. */
export interface Registry {
  readonly repository: KeyRepository
  readonly outbox: Outbox
  readonly clock: Clock
  readonly timers: Timers
  readonly randomBytes: RandomBytes
  readonly newKeyId: (nowMs: number) => string
  readonly newAuditId: (nowMs: number) => string
  readonly keyPrefix: string
  readonly signingKey: KeyObject
  readonly knownScopes: readonly string[]
  /** What the webhook is told of a change; nothing where there is none. */
  readonly noticesOf: (attempt: Attempt) => readonly Notice[]
}
