import { DENIAL_REASONS, type DenialReason, denialRow } from '../../domain/denial.ts'

/** Closed sets: no label ever holds what a client sent, nor a key, a workspace or an address. */
export const DECISION_REASONS: readonly (DenialReason | 'ok')[] = ['ok', ...denialsCountedAs('decision')]
export const REJECTION_REASONS = denialsCountedAs('rejected')
export const ABORT_PHASES = ['auth', 'waiting', 'streaming'] as const
export const LOOKUP_TIERS = ['memory', 'redis', 'key_service'] as const
export const LOOKUP_RESULTS = [
  'hit',
  'miss',
  'negative',
  'stale',
  'coalesced',
  'error',
  'unreadable',
] as const
/**
 * `current`: what is held is of that version already; `repeated`: an earlier message once more; `unverified`: without a good
 * MAC, which changes nothing.
 */
export const INVALIDATION_RESULTS = [
  'evicted',
  'current',
  'unknown_key',
  'repeated',
  'unverified',
  'unreadable',
] as const
/**
 * Where answers on routes that share them came from. `unshared`: had to be asked for once more, for one caller alone;
 * `cache`: kept and fresh; `revalidated`: kept, and the upstream said that it is still the answer.
 */
export const COALESCING_RESULTS = ['upstream', 'joined', 'unshared', 'cache', 'revalidated'] as const
export const REMOVAL_CAUSES = ['size', 'invalidated'] as const
export const COMMAND_OUTCOMES = ['ok', 'timeout', 'error', 'unavailable'] as const
export const UPSTREAM_ERROR_KINDS = [
  'dns',
  'refused',
  'connect_timeout',
  'tls',
  'headers_timeout',
  'body_timeout',
  'total_timeout',
  'reset',
  'truncated',
  'protocol',
  'queue_full',
  'preempted',
  'circuit_open',
] as const
/** Of attempts to sign in; `unavailable`: the provider did not answer as it should. */
export const LOGIN_OUTCOMES = ['ok', 'denied', 'invalid', 'unavailable', 'limited'] as const
/** Who counted a request that is limited; `local`: this gateway by itself. */
export const LIMIT_BACKENDS = ['redis', 'local'] as const
export const LIMIT_OUTCOMES = ['allowed', 'limited'] as const
export const KEY_STATES = ['active', 'expiring_30d', 'expiring', 'suspended', 'expired', 'revoked'] as const

/** Codes of an upstream that have a name of their own in labels: it may answer any number there is. */
const NAMED_CODES: ReadonlySet<number> = new Set([
  200, 304, 400, 401, 403, 404, 409, 410, 422, 429, 500, 502, 503, 504,
])

/** The label for an upstream's status: itself where it is usual, else its class. */
export function codeLabel(status: number): string {
  return NAMED_CODES.has(status) ? String(status) : `${Math.floor(status / 100)}xx`
}

/**
 * The label for how long answers took: `2xx`, `4xx` or `5xx`. A 304 is among the `2xx`, which it is as good as; a class of
 * its own would cost sixteen series a route.
 */
export function classLabel(status: number): string {
  return status === 304 ? '2xx' : `${Math.floor(status / 100)}xx`
}

/** What is counted under the names of denial reasons. */
function denialsCountedAs(metric: 'rejected' | 'decision'): readonly DenialReason[] {
  return DENIAL_REASONS.filter(reason => denialRow(reason).countedAs === metric)
}
