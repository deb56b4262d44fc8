import type { Permit } from '../../domain/authorize.ts'
import type { ClientRequest } from '../client-request.ts'

/** A permitted request that waits for a response which other requests may also receive. */
export interface Waiter {
  readonly request: ClientRequest
  readonly permit: Permit
  /** Monotonic. */
  readonly sinceMs: number
  /** Whether the request to the upstream was made for this one. */
  readonly isFirst: boolean
}
