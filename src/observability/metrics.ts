import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'

const LATENCY_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const OVERHEAD_SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1]

/** Closed sets: no label ever holds what a client sent, nor a key, a workspace or an address. */
export const DECISION_REASONS = [
  'ok',
  'missing',
  'malformed',
  'unknown',
  'revoked',
  'expired',
  'workspace',
  'scope',
  'query',
  'limited',
  'store_error',
] as const
export const REJECTION_REASONS = ['path', 'method', 'header', 'body', 'overload', 'draining'] as const
export const ABORT_PHASES = ['auth', 'waiting', 'streaming'] as const
export const LOOKUP_TIERS = ['memory', 'redis', 'origin'] as const
export const LOOKUP_RESULTS = [
  'hit',
  'miss',
  'negative',
  'stale',
  'coalesced',
  'error',
  'unreadable',
] as const
export const INVALIDATION_RESULTS = ['evicted', 'unknown_key', 'unreadable'] as const
export const REMOVAL_CAUSES = ['ttl', 'size', 'invalidated', 'flush'] as const
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
  'circuit_open',
] as const

/** Every metric of the program, declared once. Names and labels are what dashboards and alerts stand on. */
export function createMetrics() {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry })
  const counter = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Counter({ name, help, labelNames, registers })
  const gauge = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Gauge({ name, help, labelNames, registers })
  const histogram = <Label extends string>(
    name: string,
    help: string,
    labelNames: readonly Label[] = [],
    buckets: number[] = LATENCY_SECONDS,
  ) => new Histogram({ name, help, labelNames, buckets, registers })

  return {
    registry,
    requests: counter(
      'postern_http_requests_total',
      'Finished client requests; source says who produced the status',
      ['route', 'method', 'code', 'source'],
    ),
    requestDuration: histogram(
      'postern_http_request_duration_seconds',
      'From the head of a request to the last byte of its answer',
      ['route', 'code_class'],
    ),
    overheadDuration: histogram(
      'postern_http_overhead_duration_seconds',
      'Request duration less the time spent waiting for the upstream',
      [],
      OVERHEAD_SECONDS,
    ),
    requestsInFlight: gauge('postern_http_requests_in_flight', 'Open requests'),
    clientAborts: counter('postern_http_client_aborts_total', 'Requests that the client left early', [
      'phase',
    ]),
    responseBytes: counter('postern_http_response_bytes_total', 'Bytes sent in answer bodies', ['route']),
    rejected: counter('postern_http_rejected_total', 'Requests refused before the credential was looked at', [
      'reason',
    ]),
    decisions: counter('postern_auth_decisions_total', 'Every decision on a credential, once', [
      'decision',
      'reason',
    ]),
    authDuration: histogram(
      'postern_auth_duration_seconds',
      'Time to a decision, by the tier that answered',
      ['tier'],
      OVERHEAD_SECONDS,
    ),
    lookups: counter('postern_key_cache_lookups_total', 'Key look-ups by tier and result', [
      'tier',
      'result',
    ]),
    cacheEntries: gauge('postern_key_cache_entries', 'Records in memory'),
    cacheCapacity: gauge('postern_key_cache_capacity', 'Records that memory may hold'),
    cacheRemovals: counter('postern_key_cache_removals_total', 'Records that left memory, by cause', [
      'cause',
    ]),
    invalidations: counter('postern_key_invalidations_total', 'Change messages handled', ['result']),
    invalidationLag: histogram(
      'postern_key_invalidation_lag_seconds',
      'From the commit of a change to its eviction here',
    ),
    invalidationConnected: gauge(
      'postern_key_invalidation_connected',
      '1 while changes are heard, 0 while deaf',
    ),
    redisCommands: counter('postern_redis_commands_total', 'Commands sent to Redis', ['command', 'outcome']),
    redisCommandDuration: histogram('postern_redis_command_duration_seconds', 'Time of a command', [
      'command',
    ]),
    redisUp: gauge('postern_redis_up', '1 while the connection for commands is ready'),
    redisReconnects: counter(
      'postern_redis_reconnects_total',
      'Times that a connection to Redis was made again',
    ),
    upstreamRequests: counter('postern_upstream_requests_total', 'Answers of the upstream', [
      'upstream',
      'code',
    ]),
    upstreamTimeToHeaders: histogram(
      'postern_upstream_time_to_headers_seconds',
      'Wait for the headers of an answer',
      ['upstream'],
    ),
    upstreamErrors: counter('postern_upstream_errors_total', 'Requests to the upstream that failed', [
      'upstream',
      'kind',
    ]),
    upstreamConnections: gauge('postern_upstream_connections', 'Connections to the upstream', [
      'upstream',
      'state',
    ]),
    upstreamQueued: gauge('postern_upstream_queued_requests', 'Requests that wait for a connection', [
      'upstream',
    ]),
    upstreamCircuit: gauge('postern_upstream_circuit_state', '1 for the state that the circuit is in', [
      'upstream',
      'state',
    ]),
    upstreamRetries: counter(
      'postern_upstream_retries_total',
      'Requests sent again because a reused connection was reset before any answer',
      ['upstream', 'outcome'],
    ),
    draining: gauge('postern_draining', '1 after SIGTERM'),
    buildInfo: gauge('postern_build_info', 'Constant 1', ['version', 'revision', 'node']),
    adminRequests: counter('postern_admin_requests_total', 'Requests to the admin API', [
      'operation',
      'code',
    ]),
    outboxPending: gauge(
      'postern_outbox_pending',
      'Committed changes that gateways have not been told of yet',
    ),
    keyOperations: counter('postern_key_operations_total', 'Keys issued, rotated and revoked', [
      'operation',
      'outcome',
    ]),
  }
}

export type Metrics = ReturnType<typeof createMetrics>

/** @param build.revision the commit that an image was built from; `unknown` in a checkout */
export function describeBuild(
  metrics: Metrics,
  build: { version: string; revision: string; node: string },
): void {
  metrics.buildInfo.set(build, 1)
}
