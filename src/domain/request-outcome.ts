import { type DenialReason, denialRow } from './denial.ts'

/** How a request ended. */
export interface CountedRequest {
  readonly status: number
  /** The client disconnected before the end of its response. */
  readonly aborted: boolean
  /** The upstream broke off in the middle of the response. */
  readonly truncated: boolean
  /** Null if the upstream's own response was passed on. */
  readonly reason: DenialReason | null
}

/**
 * The name under which usage counts a request: `ok` for 2xx and 3xx, the public code of a denial, `upstream_rejected` for a
 * 4xx that the upstream answered itself, whose own codes have no bound.
 */
export function outcomeOf({ status, aborted, truncated, reason }: CountedRequest): string {
  if (aborted) return 'client_aborted'
  if (truncated) return 'upstream_error'
  if (reason !== null) return denialRow(reason).code
  return status < 400 ? 'ok' : 'upstream_rejected'
}

/** Whether the key of a request was found usable, although the request may have been denied. */
export function wasAuthenticated(reason: DenialReason | null): boolean {
  return reason === null || denialRow(reason).status !== 401
}
