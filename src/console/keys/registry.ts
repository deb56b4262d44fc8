import type { KeyObject } from 'node:crypto'
import type { Clock } from '../../domain/clock.ts'
import type { RegionOutboxes } from '../announcing/index.ts'
import type { RandomBytes } from '../platform/database/ids.ts'
import type { WebhookEvent } from '../platform/jobs/delivery-rows.ts'
import type { Timers } from '../platform/jobs/timers.ts'
import type { OperationCounter } from './operations/operation-counter.ts'
import type { PlannedChange } from './operations/run-operation.ts'
import type { KeyRepository } from './rows/key-repository.ts'

/** What operations on keys need. */
export interface Registry {
  readonly repository: KeyRepository
  readonly outbox: RegionOutboxes
  readonly clock: Clock
  readonly timers: Timers
  readonly randomBytes: RandomBytes
  readonly newKeyId: (nowMs: number) => string
  readonly newAuditId: (nowMs: number) => string
  readonly keyPrefix: string
  readonly signingKey: KeyObject
  readonly knownScopes: readonly string[]
  /** The webhook events of a change; none without a webhook. */
  readonly createEvents: (change: PlannedChange) => readonly WebhookEvent[]
}

/** What calls and pages that change keys use. */
export interface KeyParts {
  readonly registry: Registry
  readonly count: OperationCounter
}
