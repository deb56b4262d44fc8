import type { Permit } from '../../domain/authorize.ts'
import type { ClientRequest } from '../client-request.ts'

/** A permitted request that waits for a coalesced request. */
export interface Waiter {
  readonly request: ClientRequest
  readonly permit: Permit
  /** When it began to wait, monotonic. */
  readonly sinceMs: number
  /** Whether the coalesced request was sent for this waiter. */
  readonly isFirst: boolean
}
