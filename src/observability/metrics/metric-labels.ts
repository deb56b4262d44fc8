import { DENIAL_REASONS, type DenialReason, denialRow } from '../../domain/denial.ts'

/** Closed sets of label values: no label contains client input, a key, a workspace or an address. */
export const DECISION_REASONS: readonly (DenialReason | 'ok')[] = ['ok', ...denialsCountedAs('decision')]
export const REJECTION_REASONS = denialsCountedAs('rejected')
export const LISTENERS = ['gateway', 'check', 'console', 'internal', 'ops'] as const
/** Which limit closed a connection: that of its address, or that of the listener. */
export const CONNECTION_LIMITS = ['address', 'listener'] as const
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
 * `current`: memory holds that version already; `repeated`: a copy of an earlier message; `unverified`: the message has no
 * valid MAC, and evicts no record.
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
 * Source of a response on routes with request coalescing. `upstream`: fetched; `joined`: shared with a request in flight;
 * `unshared`: fetched for one request alone; `cache`: a fresh cached response; `revalidated`: a cached response that the
 * upstream confirmed.
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
/** Outcomes of sign-in attempts; `unavailable`: the identity provider did not respond as specified. */
export const LOGIN_OUTCOMES = ['ok', 'denied', 'invalid', 'unavailable', 'limited'] as const
/** Where rate limits are counted; `local`: in this gateway alone. */
export const LIMIT_BACKENDS = ['redis', 'local'] as const
export const LIMIT_OUTCOMES = ['allowed', 'limited'] as const
/** Outcomes of usage reports: repeated after `failed`, dropped after `rejected`. */
export const USAGE_REPORT_OUTCOMES = ['accepted', 'failed', 'rejected'] as const
export const LEAK_REPORTERS = ['github', 'public'] as const
/**
 * Outcomes of reported tokens, and of requests: `invalid` or without a good signature, `limited`, `failed`. `known`: the same
 * finding was reported before. `unknown`: not a key of this installation.
 */
export const LEAK_OUTCOMES = [
  'revoked',
  'reported',
  'known',
  'unknown',
  'invalid',
  'limited',
  'failed',
] as const
export const USAGE_EXPORT_OUTCOMES = ['accepted', 'failed', 'dropped'] as const
export const USAGE_LOSS_CAUSES = ['memory', 'refused'] as const
/** `unknown`: 1 if the schema could not be compared. */
export const SCHEMA_DIFFERENCE_KINDS = ['missing', 'changed', 'added', 'unknown'] as const
export const KEY_STATE_LABELS = [
  'active',
  'expiring_30d',
  'expiring',
  'suspended',
  'expired',
  'revoked',
] as const

/** Upstream status codes with a label of their own. An upstream may send any number, so others are counted by class. */
const LABELLED_CODES: ReadonlySet<number> = new Set([
  200, 304, 400, 401, 403, 404, 409, 410, 422, 429, 500, 502, 503, 504,
])

/** The label of an upstream's status code: the code if it is common, else its class. */
export function codeLabel(status: number): string {
  return LABELLED_CODES.has(status) ? String(status) : `${Math.floor(status / 100)}xx`
}

/**
 * The label of a response duration: `2xx`, `4xx` or `5xx`. A 304 counts as `2xx`: a class of its own would add sixteen
 * series a route.
 */
export function classLabel(status: number): string {
  return status === 304 ? '2xx' : `${Math.floor(status / 100)}xx`
}

/** The denial reasons that a metric counts by name. */
function denialsCountedAs(metric: 'rejected' | 'decision'): readonly DenialReason[] {
  return DENIAL_REASONS.filter(reason => denialRow(reason).countedAs === metric)
}
