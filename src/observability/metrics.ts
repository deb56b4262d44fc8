import {
  collectDefaultMetrics,
  Gauge,
  Registry as PrometheusRegistry,
  type RegistryContentType,
} from 'prom-client'
import { declareConsole } from './console-metrics.ts'
import { declareProcess, declareWorkspaces } from './process-metrics.ts'
import { TallyCounter, TallyHistogram } from './tally.ts'
import { declareRequestDuration } from './traced-distribution.ts'

export * from './metric-labels.ts'
export { childrenBy, type Distribution, type Tally } from './tally.ts'

const LATENCY_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const OVERHEAD_SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1]

/** Of Node's default set: parts of the heap, a dozen series each, of use to nobody who has the whole of it. */
const HEAP_SPACES = ['total', 'used', 'available'].map(kind => `nodejs_heap_space_size_${kind}_bytes`)

/** What of the program runs in a process. Metrics of the rest are not shown: a zero of theirs would mean nothing. */
export const PARTS = ['gateway', 'console', 'redis', 'changes', 'workspaces'] as const
export type Part = (typeof PARTS)[number]

type Registry = PrometheusRegistry<RegistryContentType>

/**
 * Every metric of the program, declared once. Names and labels are what dashboards and alerts stand on.
 * @param parts what runs in this process
 * @param exemplars whether they are shown as OpenMetrics, which alone has room for the trace beside a figure
 */
export function createMetrics(parts: readonly Part[] = PARTS, { exemplars = false } = {}) {
  const registry: Registry = new PrometheusRegistry<RegistryContentType>()
  if (exemplars) registry.setContentType(PrometheusRegistry.OPENMETRICS_CONTENT_TYPE)
  collectDefaultMetrics({ register: registry })
  for (const name of HEAP_SPACES) registry.removeSingleMetric(name)
  const where = (part: Part) => (parts.includes(part) ? [registry] : [])
  return {
    registry,
    ...declareProcess(declaring([registry])),
    ...declareRequests(where('gateway'), exemplars),
    ...declareDecisions(where('gateway')),
    ...declareUpstream(where('gateway')),
    ...declareChanges(where('changes')),
    ...declareRedis(where('redis')),
    ...declareConsole(declaring(where('console'))),
    ...declareWorkspaces(declaring(where('workspaces'))),
  }
}

export type Metrics = ReturnType<typeof createMetrics>

function declareRequests(registers: Registry[], exemplars: boolean) {
  const { counter, gauge, tallied } = declaring(registers)
  const duration = {
    name: 'postern_http_request_duration_seconds',
    help: 'From the head of a request to the last byte of its answer',
    labelNames: ['route', 'code_class'] as const,
    buckets: LATENCY_SECONDS,
    registers,
  }
  return {
    requestDuration: declareRequestDuration(duration, exemplars),
    requests: counter(
      'postern_http_requests_total',
      'Finished client requests; source says who produced the status',
      ['route', 'method', 'code', 'source'],
    ),
    overheadDuration: tallied(
      'postern_http_overhead_duration_seconds',
      'Request duration less the time spent waiting for the upstream',
      [],
      OVERHEAD_SECONDS,
    ),
    requestsInFlight: gauge('postern_http_requests_in_flight', 'Open requests'),
    inFlightLimit: gauge('postern_http_in_flight_limit', 'Open requests above which further ones are shed'),
    clientAborts: counter('postern_http_client_aborts_total', 'Requests that the client left early', [
      'phase',
    ]),
    responseBytes: counter('postern_http_response_bytes_total', 'Bytes sent in answer bodies', ['route']),
    limitDecisions: counter(
      'postern_ratelimit_decisions_total',
      'Requests that a rate limit let through or refused, by who counted them',
      ['policy', 'outcome', 'backend'],
    ),
    rejected: counter(
      'postern_http_rejected_total',
      'Requests refused for their form or to shed load, whatever their credential',
      ['reason'],
    ),
  }
}

function declareDecisions(registers: Registry[]) {
  const { counter, gauge, tallied } = declaring(registers)
  return {
    decisions: counter('postern_auth_decisions_total', 'Every decision on a credential, once', [
      'decision',
      'reason',
    ]),
    authDuration: tallied(
      'postern_auth_duration_seconds',
      'Time to a decision, by the tier that answered',
      ['tier'],
      OVERHEAD_SECONDS,
    ),
    lookups: counter('postern_key_cache_lookups_total', 'Key look-ups by tier and result', [
      'tier',
      'result',
    ]),
    storeCircuitOpen: gauge(
      'postern_key_store_circuit_open',
      '1 while a tier that did not answer is not asked for keys',
      ['tier'],
    ),
    cacheEntries: gauge('postern_key_cache_entries', 'Records in memory'),
    cacheCapacity: gauge('postern_key_cache_capacity', 'Records that memory may hold'),
    cacheRemovals: counter('postern_key_cache_removals_total', 'Records that left memory, by cause', [
      'cause',
    ]),
  }
}

function declareUpstream(registers: Registry[]) {
  const { counter, gauge, tallied } = declaring(registers)
  return {
    upstreamRequests: counter('postern_upstream_requests_total', 'Answers of the upstream', [
      'upstream',
      'code',
    ]),
    upstreamTimeToHeaders: tallied(
      'postern_upstream_time_to_headers_seconds',
      'Wait for the headers of an answer',
      ['upstream'],
    ),
    sharedAnswers: counter(
      'postern_shared_answers_total',
      'Answers on routes that share them, by where they came from',
      ['result'],
    ),
    answerCacheBytes: gauge('postern_answer_cache_bytes', 'Memory that kept answers take, about'),
    answerCacheCapacity: gauge('postern_answer_cache_capacity_bytes', 'Memory that kept answers may take'),
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
    upstreamAddresses: gauge(
      'postern_upstream_addresses',
      'Addresses of the upstream; `avoided` ones could not be reached a moment ago',
      ['upstream', 'state'],
    ),
    upstreamCircuit: gauge('postern_upstream_circuit_state', '1 for the state that the circuit is in', [
      'upstream',
      'state',
    ]),
    upstreamRetries: counter(
      'postern_upstream_retries_total',
      'Requests sent again because a reused connection was reset before any answer',
      ['upstream', 'outcome'],
    ),
  }
}

function declareChanges(registers: Registry[]) {
  const { counter, gauge, tallied } = declaring(registers)
  return {
    invalidations: counter(
      'postern_key_invalidations_total',
      'Invalidation messages by what they did, without the heartbeats that count',
      ['result'],
    ),
    invalidationLag: tallied(
      'postern_key_invalidation_lag_seconds',
      'From the commit of a change to its eviction here, of what was heard while not deaf',
    ),
    clockSkew: gauge(
      'postern_clock_skew_seconds',
      'By how much the time that keys expire by is ahead of the console’s, as its last heartbeat said',
    ),
    invalidationConnected: gauge(
      'postern_key_invalidation_connected',
      '1 while changes are heard, 0 while deaf',
    ),
  }
}

function declareRedis(registers: Registry[]) {
  const { counter, gauge, tallied } = declaring(registers)
  return {
    redisCommands: counter('postern_redis_commands_total', 'Commands sent to Redis', ['command', 'outcome']),
    redisCommandDuration: tallied('postern_redis_command_duration_seconds', 'Time of a command', ['command']),
    redisUp: gauge('postern_redis_up', '1 while the connection for commands is ready'),
    redisReconnects: counter(
      'postern_redis_reconnects_total',
      'Times that a connection to Redis was made again',
    ),
  }
}

export type Declaring = ReturnType<typeof declaring>

function declaring(registers: Registry[]) {
  return {
    counter: <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
      new TallyCounter({ name, help, labelNames: [...labelNames], registers }),
    gauge: <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
      new Gauge({ name, help, labelNames, registers }),
    /** For what is observed in each request, or thousands of times a second. */
    tallied: <Label extends string>(
      name: string,
      help: string,
      labelNames: readonly Label[] = [],
      buckets: number[] = LATENCY_SECONDS,
    ) => new TallyHistogram({ name, help, labelNames: [...labelNames], buckets, registers }),
  }
}

/** A gauge that is read when somebody looks, not kept up to date. (The type of a gauge lacks its `collect`.) */
export function collectOnScrape<Label extends string>(
  gauge: Gauge<Label>,
  collect: (gauge: Gauge<Label>) => void,
): void {
  Object.assign(gauge, { collect: () => collect(gauge) })
}
