import { collectDefaultMetrics, Registry, type RegistryContentType } from 'prom-client'
import { declareConsole } from './console-metrics.ts'
import {
  declareRequestDuration,
  LATENCY_SECONDS,
  type MetricDeclarations,
  type MetricRegistry,
  metricDeclarations,
} from './metric-handles.ts'

export { type CounterHandle, type HistogramHandle, handlesBy } from './metric-handles.ts'
export * from './metric-labels.ts'

const OVERHEAD_SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1]

/** Node's default metrics of single heap spaces, removed: a dozen series each, and other metrics show the whole heap. */
const HEAP_SPACES = ['total', 'used', 'available'].map(kind => `nodejs_heap_space_size_${kind}_bytes`)

/** Parts that a process may run. Metrics of other parts are not exposed, because their zeros would mislead. */
export const PARTS = ['gateway', 'console', 'redis', 'changes', 'workspaces', 'assertions'] as const
export type Part = (typeof PARTS)[number]

/**
 * Declares every metric of the program once. Dashboards and alerts use these names and labels.
 * @param parts the parts that run in this process
 * @param exemplars whether to expose OpenMetrics, the only format with exemplars
 */
export function createMetrics(parts: readonly Part[] = PARTS, { exemplars = false } = {}) {
  const registry: MetricRegistry = new Registry<RegistryContentType>()
  if (exemplars) registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE)
  collectDefaultMetrics({ register: registry })
  for (const name of HEAP_SPACES) registry.removeSingleMetric(name)
  const registries = (part: Part) => (parts.includes(part) ? [registry] : [])
  return {
    registry,
    ...declareProcess(metricDeclarations([registry])),
    ...declareGatewayRegion(metricDeclarations(registries('gateway'))),
    ...declareRequests(registries('gateway'), exemplars),
    ...declareDecisions(registries('gateway')),
    ...declareUpstream(registries('gateway')),
    ...declareAssertions(registries('assertions')),
    ...declareUsage(metricDeclarations(registries('gateway'))),
    ...declareChanges(registries('changes')),
    ...declareRedis(registries('redis')),
    ...declareConsole(metricDeclarations(registries('console'))),
    ...declareWorkspaces(metricDeclarations(registries('workspaces'))),
  }
}

export type Metrics = ReturnType<typeof createMetrics>

function declareRequests(registers: MetricRegistry[], exemplars: boolean) {
  const { counter, collected, histogram } = metricDeclarations(registers)
  const duration = {
    name: 'postern_http_request_duration_seconds',
    help: 'Time from the request head to the last byte of the response, in seconds',
    labelNames: ['route', 'code_class'] as const,
    buckets: LATENCY_SECONDS,
    registers,
  }
  return {
    requestDuration: declareRequestDuration(duration, exemplars),
    requests: counter(
      'postern_http_requests_total',
      'Client requests that were not aborted, by route, method, status code and its source; 502 if the upstream broke off',
      ['route', 'method', 'code', 'source'],
    ),
    overheadDuration: histogram(
      'postern_http_overhead_duration_seconds',
      'Request duration minus the time spent waiting for the upstream, in seconds',
      [],
      OVERHEAD_SECONDS,
    ),
    requestsInFlight: collected('postern_http_requests_in_flight', 'Requests in flight'),
    inFlightLimit: collected(
      'postern_http_in_flight_limit',
      'Requests in flight above which new requests are shed',
    ),
    clientAborts: counter(
      'postern_http_client_aborts_total',
      'Requests that the client aborted, by the phase they were in',
      ['phase'],
    ),
    responseBytes: counter('postern_http_response_bytes_total', 'Response body bytes sent, by route', [
      'route',
    ]),
    limitDecisions: counter(
      'postern_ratelimit_decisions_total',
      'Rate limit decisions, by policy, outcome and the backend that counted',
      ['policy', 'outcome', 'backend'],
    ),
    unknownPlanRequests: counter(
      'postern_ratelimit_unknown_plan_requests_total',
      'Requests of keys whose plan is not in the settings of the gateway',
    ),
    rejected: counter(
      'postern_http_rejected_total',
      'Requests rejected for their form or to shed load, by reason',
      ['reason'],
    ),
  }
}

function declareDecisions(registers: MetricRegistry[]) {
  const { counter, gauge, collected, histogram } = metricDeclarations(registers)
  return {
    decisions: counter('postern_auth_decisions_total', 'Authorization decisions, by decision and reason', [
      'decision',
      'reason',
    ]),
    authDuration: histogram(
      'postern_auth_duration_seconds',
      'Time from the request head to the decision, in seconds, by the tier that answered the key lookup',
      ['tier'],
      OVERHEAD_SECONDS,
    ),
    signingSecretsMismatch: gauge(
      'postern_signing_secrets_mismatch',
      '1 while the gateway lacks the signing secret with which the key service signs keys, else 0',
    ),
    keyServiceTokenRejected: gauge(
      'postern_key_service_token_rejected',
      '1 while the key service rejects the token of the gateway, else 0',
    ),
    lookups: counter('postern_key_cache_lookups_total', 'Key lookups, by tier and result', [
      'tier',
      'result',
    ]),
    storeCircuitOpen: collected(
      'postern_key_store_circuit_open',
      '1 while the circuit breaker of a key lookup tier is open, else 0',
      ['tier'],
    ),
    cacheEntries: collected('postern_key_cache_entries', 'Key records in memory'),
    cacheCapacity: gauge('postern_key_cache_capacity', 'Maximum number of key records in memory'),
    cacheRemovals: counter('postern_key_cache_removals_total', 'Key records removed from memory, by cause', [
      'cause',
    ]),
  }
}

function declareUpstream(registers: MetricRegistry[]) {
  const { counter, gauge, collected, histogram } = metricDeclarations(registers)
  return {
    upstreamRequests: counter('postern_upstream_requests_total', 'Upstream responses, by status code', [
      'upstream',
      'code',
    ]),
    upstreamTimeToHeaders: histogram(
      'postern_upstream_time_to_headers_seconds',
      'Time from sending a request upstream to its response headers, in seconds',
      ['upstream'],
    ),
    coalescedRequests: counter(
      'postern_coalesced_requests_total',
      'Responses on routes with request coalescing, by where they came from',
      ['result'],
    ),
    responseCacheBytes: collected(
      'postern_response_cache_bytes',
      'Approximate memory used by the response cache, in bytes',
    ),
    responseCacheCapacity: gauge(
      'postern_response_cache_capacity_bytes',
      'Memory that the response cache may use, in bytes',
    ),
    upstreamErrors: counter('postern_upstream_errors_total', 'Failed upstream requests, by kind', [
      'upstream',
      'kind',
    ]),
    upstreamConnections: collected('postern_upstream_connections', 'Connections to the upstream, by state', [
      'upstream',
      'state',
    ]),
    upstreamQueued: collected(
      'postern_upstream_queued_requests',
      'Requests waiting for an upstream connection',
      ['upstream'],
    ),
    upstreamAddresses: collected(
      'postern_upstream_addresses',
      'Addresses of the upstream, by state; `avoided` ones failed recently',
      ['upstream', 'state'],
    ),
    upstreamCircuit: collected(
      'postern_upstream_circuit_state',
      '1 for the current state of the upstream circuit breaker, else 0',
      ['upstream', 'state'],
    ),
    upstreamRetries: counter(
      'postern_upstream_retries_total',
      'Upstream requests retried after a reused connection was reset, by outcome',
      ['upstream', 'outcome'],
    ),
  }
}

function declareAssertions(registers: MetricRegistry[]) {
  const { counter, histogram } = metricDeclarations(registers)
  return {
    assertions: counter('postern_upstream_assertions_total', 'Assertions for the upstream, by result', [
      'result',
    ]),
    assertionSigning: histogram(
      'postern_upstream_assertion_signing_seconds',
      'Time to sign an assertion, in seconds',
      [],
      OVERHEAD_SECONDS,
    ),
  }
}

function declareChanges(registers: MetricRegistry[]) {
  const { counter, gauge, histogram } = metricDeclarations(registers)
  return {
    invalidations: counter('postern_key_invalidations_total', 'Invalidation messages received, by result', [
      'result',
    ]),
    invalidationLag: histogram(
      'postern_key_invalidation_lag_seconds',
      'Time from the commit of a change to its invalidation here while connected, in seconds',
    ),
    clockSkew: gauge('postern_clock_skew_seconds', 'Gateway clock minus console clock, in seconds'),
    invalidationConnected: gauge(
      'postern_key_invalidation_connected',
      '1 while the invalidation channel is connected, else 0',
    ),
  }
}

function declareRedis(registers: MetricRegistry[]) {
  const { counter, gauge, histogram } = metricDeclarations(registers)
  return {
    redisCommands: counter('postern_redis_commands_total', 'Redis commands sent, by command and outcome', [
      'command',
      'outcome',
    ]),
    redisCommandDuration: histogram(
      'postern_redis_command_duration_seconds',
      'Duration of Redis commands, in seconds',
      ['command'],
    ),
    redisUp: gauge('postern_redis_up', '1 while Redis answers commands without an error, else 0'),
    redisFailing: gauge('postern_redis_failing', 'Connections to Redis that fail, by cause', ['cause']),
    redisReconnects: counter('postern_redis_reconnects_total', 'Reconnections to Redis'),
  }
}

/** Metrics of every process. */
function declareProcess({ counter, gauge }: MetricDeclarations) {
  return {
    draining: gauge('postern_draining', '1 while the process is draining, else 0'),
    buildInfo: gauge('postern_build_info', 'Constant 1, labelled with version, revision and Node version', [
      'version',
      'revision',
      'node',
    ]),
    configInfo: gauge(
      'postern_config_info',
      'Constant 1, labelled with a short hash of the settings without secrets',
      ['plane', 'hash'],
    ),
    certificateNotAfter: gauge(
      'postern_tls_cert_not_after_seconds',
      'Expiry of the certificates used for new connections, in seconds since the epoch',
      ['purpose'],
    ),
    logLinesDropped: counter(
      'postern_log_lines_dropped_total',
      'Log lines dropped because the log output stalled or failed',
    ),
    connectionsClosed: counter(
      'postern_connections_closed_total',
      'Client connections closed at a connection limit, by listener and limit',
      ['listener', 'limit'],
    ),
    configReloadSuccess: gauge(
      'postern_config_last_reload_success',
      '1 if the last reload of the settings succeeded, else 0',
    ),
    configReloadTimestamp: gauge(
      'postern_config_last_reload_timestamp_seconds',
      'Time of the last reload of the settings, successful or not, in seconds since the epoch',
    ),
    heapLimit: gauge('postern_heap_limit_bytes', 'Limit of the old heap generation, in bytes'),
  }
}

/** Of a gateway. */
function declareGatewayRegion({ gauge }: MetricDeclarations) {
  return {
    gatewayRegion: gauge(
      'postern_gateway_region_info',
      'Constant 1, labelled with the region of the gateway; `default` without one',
      ['region'],
    ),
  }
}

/** Requests of the workspaces named in `metrics.workspaces`. No other metric has a workspace as a label. */
function declareWorkspaces({ counter, collected }: MetricDeclarations) {
  return {
    workspaceRequests: counter(
      'postern_workspace_requests_total',
      'Requests with a known key, by its workspace; `other`: not in metrics.workspaces',
      ['workspace'],
    ),
    workspacesFolded: collected(
      'postern_workspace_series_folded',
      '1 if a request was counted as `other` in the last five minutes, else 0',
    ),
  }
}

/** What a gateway reports to the key service about the use of keys. */
function declareUsage({ counter, collected }: MetricDeclarations) {
  return {
    usageReportsSent: counter(
      'postern_usage_reports_sent_total',
      'Usage reports sent, by outcome; `failed`: to be repeated, `rejected`: dropped',
      ['outcome'],
    ),
    usageReportDelay: collected(
      'postern_usage_report_delay_seconds',
      'Time since the first failure of the current usage report, in seconds; 0 if it did not fail',
    ),
    usageEntries: collected('postern_usage_entries', 'Entries of unreported usage in memory'),
    usageFolded: counter(
      'postern_usage_folded_total',
      'Requests counted by workspace instead of by key, because the memory for usage was full',
    ),
    usageLost: counter(
      'postern_usage_lost_total',
      'Requests missing in the usage of all keys, by cause; `memory`: it was full, `refused`: by the key service',
      ['cause'],
    ),
    usageExports: counter(
      'postern_usage_exports_total',
      'Requests to the usage collector, by outcome; `failed`: to be repeated, `dropped`: rejected, or too many waited',
      ['outcome'],
    ),
    usageRefusalsOmitted: counter(
      'postern_usage_refusals_omitted_total',
      'Refused requests that were counted, but not reported one by one',
    ),
  }
}
