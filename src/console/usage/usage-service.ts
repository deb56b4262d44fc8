import type { Capability } from '../platform/capability.ts'
import type { Call } from '../platform/http/calls.ts'
import type { UsageQueries } from './usage-queries.ts'

/** Which parts of the reports are kept: the settings `usage.enabled` and `refusals.enabled`. */
export interface StoredUsage {
  readonly counts: boolean
  readonly refusals: boolean
}

/** Counts and refusals: receiving, keeping and reading them. */
export interface UsageService {
  readonly stores: StoredUsage
  readonly queries: UsageQueries
  /** For gateways. */
  readonly call: Call
  readonly capability: Capability
}
