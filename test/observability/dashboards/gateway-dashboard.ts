import {
  type Dashboard,
  gauge,
  quantile,
  quantiles,
  type Row,
  rate,
  ratio,
  SELECTED,
  SELECTED_JOB,
  SELECTED_ROUTE,
} from './dashboard.ts'
import { kubernetes } from './kubernetes-row.ts'

const REQUESTS = 'postern_http_requests_total'
const requests = (by = '', matchers = '') => rate(REQUESTS, by, matchers, SELECTED_ROUTE)

/** Rates of the buckets of the request duration, recorded: raw, 30 days of them take seconds to load. */
const recordedBuckets = (by: string, matchers: string) =>
  `sum by (${by}) (avg_over_time(job:postern_http_request_duration_seconds_bucket:${matchers}[$__rate_interval]))`
const ROUTE_BUCKETS = `route_rate5m{${SELECTED_JOB},route=~"$route"}`
const CLASS_BUCKETS = `class_rate5m{${SELECTED_JOB}}`
const LATENCY = 'Time from the request head to the last byte of the response, over five minutes.'

const summary: Row = {
  title: 'Summary',
  panels: [
    {
      title: 'Requests',
      description: 'Completed requests a second.',
      kind: 'stat',
      unit: 'reqps',
      width: 4,
      queries: [{ expr: requests(), legend: 'requests' }],
    },
    {
      title: 'Error ratio',
      description: 'Share of responses with a 5xx status, from the gateway or the upstream.',
      kind: 'stat',
      unit: 'percentunit',
      width: 4,
      thresholds: [0.001, 0.01],
      runbook: '#posternerrorbudgetburnfast',
      queries: [{ expr: ratio(requests('', 'code=~"5.."'), requests()), legend: '5xx' }],
    },
    {
      title: 'Latency, p99',
      description: `${LATENCY} Of all pods.`,
      kind: 'stat',
      unit: 's',
      width: 4,
      queries: [{ expr: `histogram_quantile(0.99, ${recordedBuckets('le', ROUTE_BUCKETS)})`, legend: 'p99' }],
    },
    {
      title: 'Budget burn, 1 h',
      description: 'Burn rate of the error budget. At 1 the budget lasts exactly 30 days.',
      kind: 'stat',
      unit: 'none',
      width: 4,
      thresholds: [1, 14.4],
      runbook: '#posternerrorbudgetburnfast',
      queries: [
        {
          expr: `max by (slo) (job:postern_slo:burnrate1h{${SELECTED_JOB},slo=~"gateway|end_to_end"})`,
          legend: '{{slo}}',
        },
      ],
    },
    {
      title: 'Gateways',
      description: 'Running gateways, and how many of them are disconnected from the invalidation channel.',
      kind: 'stat',
      unit: 'none',
      width: 4,
      runbook: '#posternrevocationstreamdown',
      queries: [
        { expr: gauge('postern_config_info', '', 'plane="gateway"'), legend: 'replicas' },
        {
          expr: `sum(1 - postern_key_invalidation_connected{${SELECTED}})`,
          legend: 'disconnected',
        },
      ],
    },
    {
      title: 'Versions and settings',
      description:
        'Replicas by version and by hash of the settings. Several for longer than a rollout: the rollout is stuck.',
      kind: 'stat',
      unit: 'none',
      width: 4,
      runbook: '#posternversionskew',
      queries: [
        { expr: gauge('postern_build_info', 'version'), legend: '{{version}}' },
        { expr: gauge('postern_config_info', 'hash', 'plane="gateway"'), legend: '{{hash}}' },
      ],
    },
  ],
}

const traffic: Row = {
  title: 'Traffic',
  panels: [
    {
      title: 'Requests by route',
      description: '`none`: the path matched no route.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 8,
      queries: [{ expr: requests('route'), legend: '{{route}}' }],
    },
    {
      title: 'Responses by status',
      description: 'By status code, and by whether the gateway or the upstream set it.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 8,
      stacked: true,
      queries: [{ expr: requests('code, source'), legend: '{{code}} {{source}}' }],
    },
    {
      title: '5xx by route',
      description: 'Responses that spend the error budgets.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 8,
      runbook: '#posternerrorbudgetburnfast',
      queries: [
        { expr: requests('route, code, source', 'code=~"5.."'), legend: '{{route}} {{code}} {{source}}' },
      ],
    },
    {
      title: 'Latency',
      description: `Distribution. ${LATENCY} Of all pods.`,
      kind: 'heatmap',
      unit: 's',
      width: 8,
      queries: [{ expr: recordedBuckets('le', ROUTE_BUCKETS), legend: '{{le}}' }],
    },
    {
      title: 'Latency by status class, p99',
      description: `${LATENCY} Of all pods and routes.`,
      kind: 'timeseries',
      unit: 's',
      width: 8,
      queries: [
        {
          expr: `histogram_quantile(0.99, ${recordedBuckets('le, code_class', CLASS_BUCKETS)})`,
          legend: '{{code_class}}',
        },
      ],
    },
    {
      title: 'Bytes sent',
      description: 'Response bodies, by route.',
      kind: 'timeseries',
      unit: 'Bps',
      width: 8,
      queries: [
        { expr: rate('postern_http_response_bytes_total', 'route', '', SELECTED_ROUTE), legend: '{{route}}' },
      ],
    },
  ],
}

const overhead: Row = {
  title: 'Overhead',
  panels: [
    {
      title: 'Added by the gateway',
      description: 'Request duration minus the wait for the upstream. Objective: 99 % below 10 ms.',
      kind: 'timeseries',
      unit: 's',
      width: 12,
      runbook: '#posternoverheadlatencybudgetburn',
      queries: quantiles('postern_http_overhead_duration_seconds'),
    },
    {
      title: 'Time to decision, p99',
      description:
        'Time from the request head to the authorization decision, by the tier that returned the key.',
      kind: 'timeseries',
      unit: 's',
      width: 12,
      queries: [{ expr: quantile(0.99, 'postern_auth_duration_seconds', 'tier'), legend: '{{tier}}' }],
    },
  ],
}

const decisions: Row = {
  title: 'Authorization decisions',
  panels: [
    {
      title: 'Permitted and denied',
      description: 'Requests whose key was checked, and requests without one.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 8,
      stacked: true,
      queries: [{ expr: rate('postern_auth_decisions_total', 'decision'), legend: '{{decision}}' }],
    },
    {
      title: 'Denied, by reason',
      description: '`key_store_unavailable`: no store could verify the key.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 8,
      queries: [
        { expr: rate('postern_auth_decisions_total', 'reason', 'decision="denied"'), legend: '{{reason}}' },
      ],
    },
    {
      title: 'Unknown and malformed keys',
      description: 'The alert fires above ten times the median of the last day.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 8,
      runbook: '#posternunknownkeyspike',
      queries: [
        { expr: `sum(job:postern_auth_unknown:rate5m{${SELECTED_JOB}})`, legend: 'now' },
        {
          expr: `10 * sum(quantile_over_time(0.5, job:postern_auth_unknown:rate5m{${SELECTED_JOB}}[1d]))`,
          legend: 'ten times the median',
        },
      ],
    },
  ],
}

const cache: Row = {
  title: 'Key cache and revocation',
  panels: [
    {
      title: 'Memory hit ratio',
      description: 'Share of key lookups answered from memory.',
      kind: 'timeseries',
      unit: 'percentunit',
      max: 1,
      width: 6,
      runbook: '#posterncachehitratiolow',
      queries: [
        {
          expr: `min by (job) (job:postern_key_cache_hits:ratio_rate5m{${SELECTED_JOB}})`,
          legend: '{{job}}',
        },
      ],
    },
    {
      title: 'Lookups',
      description: 'By tier and result. `coalesced`: joined a lookup of the same key in flight.',
      kind: 'timeseries',
      unit: 'ops',
      width: 6,
      queries: [
        {
          expr: `${rate('postern_key_cache_lookups_total', 'tier, result')} > 0`,
          legend: '{{tier}} {{result}}',
        },
      ],
    },
    {
      title: 'Records in memory',
      description: 'Key records in memory, and the maximum (keys.memory.maxEntries).',
      kind: 'timeseries',
      unit: 'short',
      width: 6,
      queries: [
        { expr: gauge('postern_key_cache_entries', 'pod'), legend: '{{pod}}' },
        { expr: gauge('postern_key_cache_capacity', '', '', 'min'), legend: 'capacity' },
      ],
    },
    {
      title: 'Records evicted from memory',
      description: '`invalidated`: by a change. `size`: to make room.',
      kind: 'timeseries',
      unit: 'ops',
      width: 6,
      queries: [{ expr: rate('postern_key_cache_removals_total', 'cause'), legend: '{{cause}}' }],
    },
    {
      title: 'Revocation lag',
      description:
        'Time from the commit of a change to its invalidation at a connected gateway. Guarantee: 1 s.',
      kind: 'timeseries',
      unit: 's',
      width: 12,
      runbook: '#posternrevocationlaghigh',
      queries: quantiles('postern_key_invalidation_lag_seconds'),
    },
    {
      title: 'Connected to the invalidation channel',
      description: '1: connected. 0: disconnected; the gateway verifies each key at the key service.',
      kind: 'timeseries',
      unit: 'none',
      max: 1,
      width: 12,
      runbook: '#posternrevocationstreamdown',
      queries: [{ expr: gauge('postern_key_invalidation_connected', 'pod'), legend: '{{pod}}' }],
    },
  ],
}

const redis: Row = {
  title: 'Redis',
  panels: [
    {
      title: 'Commands by outcome',
      description: '`unavailable`: not connected.',
      kind: 'timeseries',
      unit: 'ops',
      width: 6,
      runbook: '#posternkeystoreunavailable',
      queries: [
        { expr: rate('postern_redis_commands_total', 'command, outcome'), legend: '{{command}} {{outcome}}' },
      ],
    },
    {
      title: 'Command duration',
      description: 'p50 and p99. The timeout is redis.commandTimeoutMs.',
      kind: 'timeseries',
      unit: 's',
      width: 6,
      runbook: '#posternkeystoredegraded',
      queries: [
        {
          expr: quantile(0.5, 'postern_redis_command_duration_seconds', 'command'),
          legend: 'p50 {{command}}',
        },
        {
          expr: quantile(0.99, 'postern_redis_command_duration_seconds', 'command'),
          legend: 'p99 {{command}}',
        },
      ],
    },
    {
      title: 'Connection state and reconnections',
      description: '1 while Redis answers commands without an error; reconnections a second.',
      kind: 'timeseries',
      unit: 'none',
      width: 6,
      runbook: '#posternkeystoreunavailable',
      queries: [
        { expr: gauge('postern_redis_up', 'pod'), legend: '{{pod}}' },
        { expr: rate('postern_redis_reconnects_total', 'pod'), legend: 'reconnections {{pod}}' },
      ],
    },
    {
      title: 'Failing connections and rejected tokens',
      description:
        'Connections to Redis that fail, by cause, and replicas whose token the key service rejects.',
      kind: 'timeseries',
      unit: 'short',
      width: 6,
      runbook: '#posternkeystoreunavailable',
      queries: [
        { expr: gauge('postern_redis_failing', 'cause'), legend: '{{cause}}' },
        { expr: gauge('postern_key_service_token_rejected', 'pod'), legend: 'token {{pod}}' },
      ],
    },
    {
      title: 'Open circuits',
      description: 'Replicas whose circuit breaker for a tier is open: lookups skip it, except for probes.',
      kind: 'timeseries',
      unit: 'short',
      width: 6,
      runbook: '#posternkeystoreunavailable',
      queries: [{ expr: gauge('postern_key_store_circuit_open', 'tier'), legend: '{{tier}}' }],
    },
  ],
}

const upstream: Row = {
  title: 'Upstream',
  panels: [
    {
      title: 'Time to headers',
      description: 'Time from sending a request upstream to its response headers.',
      kind: 'timeseries',
      unit: 's',
      width: 8,
      queries: quantiles('postern_upstream_time_to_headers_seconds'),
    },
    {
      title: 'Upstream responses by status',
      description: 'Status codes that the upstream returned.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 8,
      stacked: true,
      queries: [{ expr: rate('postern_upstream_requests_total', 'code'), legend: '{{code}}' }],
    },
    {
      title: 'Failures by kind',
      description: 'Upstream requests without a complete response.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 8,
      runbook: '#posternupstreamdown',
      queries: [{ expr: rate('postern_upstream_errors_total', 'kind'), legend: '{{kind}}' }],
    },
    {
      title: 'Unreachable',
      description: 'Share of upstream requests without a connection or without a response in time.',
      kind: 'timeseries',
      unit: 'percentunit',
      max: 1,
      width: 5,
      runbook: '#posternupstreamdown',
      queries: [
        {
          expr: `max by (upstream) (job:postern_upstream_unreachable:ratio_rate2m{${SELECTED_JOB}})`,
          legend: '{{upstream}}',
        },
      ],
    },
    {
      title: 'Connections',
      description:
        '`free`: open and idle. `pending`: being opened. Addresses `avoided`: a connection to them failed recently.',
      kind: 'timeseries',
      unit: 'short',
      width: 5,
      queries: [
        { expr: gauge('postern_upstream_connections', 'state'), legend: '{{state}}' },
        { expr: gauge('postern_upstream_addresses', 'state'), legend: 'addresses {{state}}' },
      ],
    },
    {
      title: 'Waiting for a connection',
      description: 'Above 0, all upstream.connections of a replica are in use.',
      kind: 'timeseries',
      unit: 'short',
      width: 5,
      runbook: '#posternupstreamqueueing',
      queries: [{ expr: gauge('postern_upstream_queued_requests', 'pod'), legend: '{{pod}}' }],
    },
    {
      title: 'Circuit state',
      description: 'Replicas by state of the upstream circuit breaker. `open`: requests get 503 at once.',
      kind: 'timeseries',
      unit: 'short',
      width: 5,
      runbook: '#posternupstreamcircuitopen',
      queries: [{ expr: gauge('postern_upstream_circuit_state', 'state'), legend: '{{state}}' }],
    },
    {
      title: 'Retries',
      description:
        'Requests retried once after a reused connection was reset before the first response byte.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 4,
      queries: [{ expr: rate('postern_upstream_retries_total', 'outcome'), legend: '{{outcome}}' }],
    },
    {
      title: 'Coalesced and cached responses',
      description:
        'On routes with shareAnswers. `upstream`: fetched. `joined`: shared with a request in flight. `unshared`: waited for a response that could not be shared, then fetched. `cache`: fresh cached response. `revalidated`: cached response that the upstream confirmed.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 16,
      stacked: true,
      queries: [{ expr: rate('postern_shared_answers_total', 'result'), legend: '{{result}}' }],
    },
    {
      title: 'Response cache memory',
      description: 'Approximate memory in use, and its maximum (upstream.cache.maxBytes).',
      kind: 'timeseries',
      unit: 'bytes',
      width: 8,
      queries: [
        { expr: gauge('postern_answer_cache_bytes', 'pod'), legend: '{{pod}}' },
        { expr: gauge('postern_answer_cache_capacity_bytes', '', '', 'min'), legend: 'capacity' },
      ],
    },
    {
      title: 'Assertions',
      description:
        'For requests to the upstream, if upstream.assertion is set. `reused`: signed for an earlier request of the key. `failed`: not signed, so the request got 500.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 16,
      stacked: true,
      queries: [{ expr: rate('postern_upstream_assertions_total', 'result'), legend: '{{result}}' }],
    },
    {
      title: 'Time to sign an assertion',
      description: 'Until the signature is there, with the wait for a thread.',
      kind: 'timeseries',
      unit: 's',
      width: 8,
      queries: quantiles('postern_upstream_assertion_signing_seconds'),
    },
  ],
}

const limits: Row = {
  title: 'Limits and load shedding',
  panels: [
    {
      title: 'Rejected before the key check',
      description:
        '`overloaded`: the in-flight limit is reached. `workspace_overloaded`: one workspace exceeds its fair share. Requests that waited too long for a connection: `queue_full` in row Upstream.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 8,
      queries: [{ expr: rate('postern_http_rejected_total', 'reason'), legend: '{{reason}}' }],
    },
    {
      title: 'Requests in flight',
      description:
        'Requests in flight, their current limit (below gateway.maxInFlight while a replica is overloaded), and draining replicas.',
      kind: 'timeseries',
      unit: 'short',
      width: 8,
      runbook: '#posternslowdrain',
      queries: [
        { expr: gauge('postern_http_requests_in_flight', 'pod'), legend: '{{pod}}' },
        { expr: gauge('postern_http_in_flight_limit', 'pod'), legend: '{{pod}} limit' },
        { expr: gauge('postern_draining'), legend: 'draining replicas' },
      ],
    },
    {
      title: 'Client aborts',
      description:
        'By phase: `auth` during the key check, `waiting` for the upstream, `streaming` the response.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 8,
      queries: [{ expr: rate('postern_http_client_aborts_total', 'phase'), legend: '{{phase}}' }],
    },
    {
      title: 'Rate limits',
      description: 'Decisions by policy of limits.policies; empty without policies. `limited`: 429.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 12,
      queries: [
        {
          expr: rate('postern_ratelimit_decisions_total', 'policy, outcome'),
          legend: '{{policy}} {{outcome}}',
        },
      ],
    },
    {
      title: 'Rate limits by backend',
      description:
        '`redis`: counted for all gateways together. `local`: counted by one gateway, for its share of the limit.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 12,
      runbook: '#posternratelimiterlocalmode',
      queries: [{ expr: rate('postern_ratelimit_decisions_total', 'backend'), legend: '{{backend}}' }],
    },
  ],
}

/** Empty unless `metrics.workspaces` names workspaces. */
const workspaces: Row = {
  title: 'Workspaces',
  panels: [
    {
      title: 'Requests by workspace',
      description:
        'Requests with a known key, for the workspaces named in metrics.workspaces. `other`: all other workspaces. Empty if it names none.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 16,
      stacked: true,
      queries: [{ expr: rate('postern_workspace_requests_total', 'workspace'), legend: '{{workspace}}' }],
    },
    {
      title: 'Unnamed workspaces',
      description: '1 if a request was counted as `other` in the last five minutes.',
      kind: 'timeseries',
      unit: 'none',
      max: 1,
      width: 8,
      runbook: '#posternserieslimitfolded',
      queries: [{ expr: gauge('postern_workspace_series_folded', 'pod', '', 'max'), legend: '{{pod}}' }],
    },
  ],
}

export const nodejs: Row = {
  title: 'Node.js',
  panels: [
    {
      title: 'Event loop lag, p99',
      description: 'Every request waits at least this long. The measurement itself adds about 10 ms.',
      kind: 'timeseries',
      unit: 's',
      width: 6,
      runbook: '#posterneventlooplaghigh',
      queries: [{ expr: gauge('nodejs_eventloop_lag_p99_seconds', 'pod', '', 'max'), legend: '{{pod}}' }],
    },
    {
      title: 'Processor time',
      description: 'Cores in use. All JavaScript of a process runs on one core.',
      kind: 'timeseries',
      unit: 'none',
      width: 6,
      queries: [{ expr: rate('process_cpu_seconds_total', 'pod'), legend: '{{pod}}' }],
    },
    {
      title: 'Heap in use',
      description: 'Share of the heap limit.',
      kind: 'timeseries',
      unit: 'percentunit',
      width: 6,
      runbook: '#posternheapnearlimit',
      queries: [
        {
          expr: `max by (pod) (nodejs_heap_size_used_bytes{${SELECTED}} / postern_heap_limit_bytes{${SELECTED}})`,
          legend: '{{pod}}',
        },
      ],
    },
    {
      title: 'Resident memory',
      description: 'Resident set size. Kubernetes compares about this with the memory limit.',
      kind: 'timeseries',
      unit: 'bytes',
      width: 6,
      queries: [{ expr: gauge('process_resident_memory_bytes', 'pod'), legend: '{{pod}}' }],
    },
    {
      title: 'Garbage collection',
      description: 'Share of time spent, by kind.',
      kind: 'timeseries',
      unit: 'percentunit',
      width: 6,
      queries: [{ expr: rate('nodejs_gc_duration_seconds_sum', 'kind'), legend: '{{kind}}' }],
    },
    {
      title: 'Open files',
      description: 'Open file descriptors, mostly sockets.',
      kind: 'timeseries',
      unit: 'short',
      width: 6,
      queries: [{ expr: gauge('process_open_fds', 'pod'), legend: '{{pod}}' }],
    },
    {
      title: 'Settings reload',
      description:
        '1 if the last reload succeeded, 0 if it failed and the last good settings stay in use; and hours since that reload.',
      kind: 'timeseries',
      unit: 'none',
      width: 6,
      runbook: '#posternconfigreloadfailed',
      queries: [
        { expr: gauge('postern_config_last_reload_success', 'pod', '', 'min'), legend: '{{pod}}' },
        {
          expr: `(time() - ${gauge('postern_config_last_reload_timestamp_seconds', '', '', 'max')}) / 3600`,
          legend: 'hours ago',
        },
      ],
    },
    {
      title: 'Uptime',
      description: 'Returns to 0 when a process restarts.',
      kind: 'timeseries',
      unit: 's',
      width: 6,
      queries: [
        { expr: `time() - ${gauge('process_start_time_seconds', 'pod', '', 'max')}`, legend: '{{pod}}' },
      ],
    },
    {
      title: 'Scrape success',
      description: '1 while Prometheus can scrape the process.',
      kind: 'timeseries',
      unit: 'none',
      max: 1,
      width: 6,
      runbook: '#posterntargetdown',
      queries: [{ expr: `max by (pod) (up{${SELECTED}})`, legend: '{{pod}}' }],
    },
    {
      title: 'Log lines dropped',
      description: 'Lines dropped because the reader of standard output stalled. Requests are not delayed.',
      kind: 'timeseries',
      unit: 'short',
      width: 6,
      queries: [{ expr: rate('postern_log_lines_dropped_total', 'pod'), legend: '{{pod}}' }],
    },
    {
      title: 'Connections closed at a limit',
      description:
        'New connections, or those without a complete request, that a listener closed at its limit of connections.',
      kind: 'timeseries',
      unit: 'short',
      width: 6,
      queries: [
        {
          expr: rate('postern_connections_closed_total', 'listener, limit'),
          legend: '{{listener}} {{limit}}',
        },
      ],
    },
    {
      title: 'Clock ahead of the console',
      description: 'Keys expire this much too early; below zero, too late.',
      kind: 'timeseries',
      unit: 's',
      width: 6,
      runbook: '#posternclockskew',
      queries: [{ expr: gauge('postern_clock_skew_seconds', 'pod', '', 'max'), legend: '{{pod}}' }],
    },
  ],
}

export const gatewayDashboard: Dashboard = {
  uid: 'postern-gateway',
  file: 'gateway',
  title: 'Postern / Gateway',
  description: 'Traffic, latency, decisions and dependencies of the gateways.',
  byRoute: true,
  openRows: 2,
  rows: [
    summary,
    traffic,
    overhead,
    decisions,
    cache,
    redis,
    upstream,
    limits,
    workspaces,
    nodejs,
    kubernetes,
  ],
}
