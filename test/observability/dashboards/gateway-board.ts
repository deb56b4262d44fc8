import {
  type Board,
  CHOSEN,
  CHOSEN_JOB,
  CHOSEN_ROUTE,
  gauge,
  quantile,
  quantiles,
  type Row,
  rate,
  share,
} from './board.ts'
import { kubernetes } from './kubernetes-row.ts'

const REQUESTS = 'postern_http_requests_total'
const requests = (by = '', matchers = '') => rate(REQUESTS, by, matchers, CHOSEN_ROUTE)

const summary: Row = {
  title: 'Summary',
  panels: [
    {
      title: 'Requests',
      description: 'Finished requests a second.',
      kind: 'stat',
      unit: 'reqps',
      width: 4,
      queries: [{ expr: requests(), legend: 'requests' }],
    },
    {
      title: 'Failed',
      description: 'Share of responses with a 5xx, of the gateway or the upstream.',
      kind: 'stat',
      unit: 'percentunit',
      width: 4,
      limits: [0.001, 0.01],
      runbook: '#posternerrorbudgetburnfast',
      queries: [{ expr: share(requests('', 'code=~"5.."'), requests()), legend: '5xx' }],
    },
    {
      title: 'Latency, p99',
      description: 'From the head of a request to the last byte of its answer.',
      kind: 'stat',
      unit: 's',
      width: 4,
      queries: [
        {
          expr: quantile(0.99, 'postern_http_request_duration_seconds', '', '', CHOSEN_ROUTE),
          legend: 'p99',
        },
      ],
    },
    {
      title: 'Budget burn, 1 h',
      description:
        'How many times as fast as it may the error budget is spent. 1 spends all of it in 30 days.',
      kind: 'stat',
      unit: 'none',
      width: 4,
      limits: [1, 14.4],
      runbook: '#posternerrorbudgetburnfast',
      queries: [
        {
          expr: `max by (slo) (job:postern_slo:burnrate1h{${CHOSEN_JOB},slo!="overhead"})`,
          legend: '{{slo}}',
        },
      ],
    },
    {
      title: 'Gateways',
      description: 'Gateways that report, and those of them that receive no invalidations.',
      kind: 'stat',
      unit: 'none',
      width: 4,
      runbook: '#posternrevocationstreamdown',
      queries: [
        { expr: gauge('postern_config_info', '', 'plane="gateway"'), legend: 'replicas' },
        {
          expr: `sum(1 - postern_key_invalidation_connected{${CHOSEN}})`,
          legend: 'disconnected',
        },
      ],
    },
    {
      title: 'Versions and settings',
      description: 'More than one of a kind for longer than a rollout takes: it is stuck.',
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
      description: '`none`: no route of ours.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 8,
      queries: [{ expr: requests('route'), legend: '{{route}}' }],
    },
    {
      title: 'Answers by status',
      description: 'Whether the gateway or the upstream set the status.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 8,
      stacked: true,
      queries: [{ expr: requests('code, source'), legend: '{{code}} {{source}}' }],
    },
    {
      title: '5xx by route',
      description: 'What the error budgets are spent on.',
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
      description: 'From the head of a request to the last byte of its answer: how many took how long.',
      kind: 'heatmap',
      unit: 's',
      width: 8,
      queries: [
        {
          expr: rate('postern_http_request_duration_seconds_bucket', 'le', '', CHOSEN_ROUTE),
          legend: '{{le}}',
        },
      ],
    },
    {
      title: 'Latency by class of status',
      description: 'p99.',
      kind: 'timeseries',
      unit: 's',
      width: 8,
      queries: [
        {
          expr: quantile(0.99, 'postern_http_request_duration_seconds', 'code_class', '', CHOSEN_ROUTE),
          legend: '{{code_class}}',
        },
      ],
    },
    {
      title: 'Bytes sent',
      description: 'Bodies of answers, by route.',
      kind: 'timeseries',
      unit: 'Bps',
      width: 8,
      queries: [
        { expr: rate('postern_http_response_bytes_total', 'route', '', CHOSEN_ROUTE), legend: '{{route}}' },
      ],
    },
  ],
}

const overhead: Row = {
  title: 'Overhead',
  panels: [
    {
      title: 'Added by the gateway',
      description: 'Duration less the wait for the upstream. The objective: 99 % below 10 ms.',
      kind: 'timeseries',
      unit: 's',
      width: 12,
      runbook: '#posternoverheadlatencybudgetburn',
      queries: quantiles('postern_http_overhead_duration_seconds'),
    },
    {
      title: 'Decision on a key, p99',
      description: 'By the tier that knew it.',
      kind: 'timeseries',
      unit: 's',
      width: 12,
      queries: [{ expr: quantile(0.99, 'postern_auth_duration_seconds', 'tier'), legend: '{{tier}}' }],
    },
  ],
}

const decisions: Row = {
  title: 'Decisions on keys',
  panels: [
    {
      title: 'Permitted and denied',
      description: 'Each request that came as far as a credential, once.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 8,
      stacked: true,
      queries: [{ expr: rate('postern_auth_decisions_total', 'decision'), legend: '{{decision}}' }],
    },
    {
      title: 'Denied, by reason',
      description: '`key_store_unavailable`: no store could say whether the key is valid.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 8,
      queries: [
        { expr: rate('postern_auth_decisions_total', 'reason', 'decision="denied"'), legend: '{{reason}}' },
      ],
    },
    {
      title: 'Unknown and malformed keys',
      description: 'And ten times the median of the last day, above which an alert fires.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 8,
      runbook: '#posternunknownkeyspike',
      queries: [
        { expr: `sum(job:postern_auth_unknown:rate5m{${CHOSEN_JOB}})`, legend: 'now' },
        {
          expr: `10 * sum(quantile_over_time(0.5, job:postern_auth_unknown:rate5m{${CHOSEN_JOB}}[1d]))`,
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
      title: 'Answered from memory',
      description: 'Share of lookups that memory answered.',
      kind: 'timeseries',
      unit: 'percentunit',
      max: 1,
      width: 6,
      runbook: '#posterncachehitratiolow',
      queries: [
        { expr: `min by (job) (job:postern_key_cache_hits:ratio_rate5m{${CHOSEN_JOB}})`, legend: '{{job}}' },
      ],
    },
    {
      title: 'Lookups',
      description: 'By tier and result. `coalesced`: waited for one of the same key that was under way.',
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
      description: 'Of how many there may be.',
      kind: 'timeseries',
      unit: 'short',
      width: 6,
      queries: [
        { expr: gauge('postern_key_cache_entries', 'pod'), legend: '{{pod}}' },
        { expr: gauge('postern_key_cache_capacity', '', '', 'min'), legend: 'capacity' },
      ],
    },
    {
      title: 'Records that left memory',
      description: '`invalidated`: a change arrived. `size`: memory was full.',
      kind: 'timeseries',
      unit: 'ops',
      width: 6,
      queries: [{ expr: rate('postern_key_cache_removals_total', 'cause'), legend: '{{cause}}' }],
    },
    {
      title: 'From revocation to its effect',
      description:
        'From the commit of a change to its eviction here, of changes received while connected. The promise: within a second.',
      kind: 'timeseries',
      unit: 's',
      width: 12,
      runbook: '#posternrevocationlaghigh',
      queries: quantiles('postern_key_invalidation_lag_seconds'),
    },
    {
      title: 'Connected to the invalidation channel',
      description:
        '1 while a gateway is connected, 0 while it is disconnected and verifies each key at the key service.',
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
      description: '`unavailable`: there was no connection.',
      kind: 'timeseries',
      unit: 'ops',
      width: 6,
      runbook: '#posternkeystoreunavailable',
      queries: [
        { expr: rate('postern_redis_commands_total', 'command, outcome'), legend: '{{command}} {{outcome}}' },
      ],
    },
    {
      title: 'Time of a command',
      description: 'p50 and p99; the limit is redis.commandTimeoutMs.',
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
      title: 'Connected, and connected again',
      description: '1 while the connection for commands is ready; reconnections a second.',
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
      title: 'Passed over',
      description:
        'Replicas that do not ask a tier for keys, because it did not answer: Redis, or the key service. A probe tries it.',
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
      title: 'Wait for headers',
      description: 'From asking, the wait for a connection included.',
      kind: 'timeseries',
      unit: 's',
      width: 8,
      queries: quantiles('postern_upstream_time_to_headers_seconds'),
    },
    {
      title: 'Answers by status',
      description: 'As the upstream gave them.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 8,
      stacked: true,
      queries: [{ expr: rate('postern_upstream_requests_total', 'code'), legend: '{{code}}' }],
    },
    {
      title: 'Failures by kind',
      description: 'Requests that got no whole answer.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 8,
      runbook: '#posternupstreamdown',
      queries: [{ expr: rate('postern_upstream_errors_total', 'kind'), legend: '{{kind}}' }],
    },
    {
      title: 'Unreachable',
      description: 'Share of requests that got no connection or no answer in time.',
      kind: 'timeseries',
      unit: 'percentunit',
      max: 1,
      width: 5,
      runbook: '#posternupstreamdown',
      queries: [
        {
          expr: `max by (upstream) (job:postern_upstream_unreachable:ratio_rate2m{${CHOSEN_JOB}})`,
          legend: '{{upstream}}',
        },
      ],
    },
    {
      title: 'Connections',
      description:
        '`free` are open and idle, `pending` are being made. Addresses that are avoided could not be reached a moment ago.',
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
      description: 'Above 0 all upstream.connections of a replica are in use.',
      kind: 'timeseries',
      unit: 'short',
      width: 5,
      runbook: '#posternupstreamqueueing',
      queries: [{ expr: gauge('postern_upstream_queued_requests', 'pod'), legend: '{{pod}}' }],
    },
    {
      title: 'Circuit',
      description: 'How many replicas stand how to the upstream. `open`: it is not asked.',
      kind: 'timeseries',
      unit: 'short',
      width: 5,
      runbook: '#posternupstreamcircuitopen',
      queries: [{ expr: gauge('postern_upstream_circuit_state', 'state'), legend: '{{state}}' }],
    },
    {
      title: 'Sent again',
      description: 'A kept connection was reset before any byte of an answer; once only.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 4,
      queries: [{ expr: rate('postern_upstream_retries_total', 'outcome'), legend: '{{outcome}}' }],
    },
    {
      title: 'Shared answers',
      description:
        'On routes that share them. `joined`: was given the answer of another. `unshared`: waited for one that could not be shared, and asked once more. `cache`: was kept and fresh. `revalidated`: was kept, and the upstream said that it still holds.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 16,
      stacked: true,
      queries: [{ expr: rate('postern_shared_answers_total', 'result'), legend: '{{result}}' }],
    },
    {
      title: 'Memory for kept answers',
      description: 'Of how much there may be (upstream.cache.maxBytes); 0 where nothing is kept.',
      kind: 'timeseries',
      unit: 'bytes',
      width: 8,
      queries: [
        { expr: gauge('postern_answer_cache_bytes', 'pod'), legend: '{{pod}}' },
        { expr: gauge('postern_answer_cache_capacity_bytes', '', '', 'min'), legend: 'capacity' },
      ],
    },
  ],
}

const limits: Row = {
  title: 'Limits and shedding',
  panels: [
    {
      title: 'Refused before the key was looked at',
      description:
        '`overloaded`: more in flight than are let in now (beside it); `workspace_overloaded`: of one workspace, more than its share. What waited in vain for a connection is `queue_full` of row Upstream.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 8,
      queries: [{ expr: rate('postern_http_rejected_total', 'reason'), legend: '{{reason}}' }],
    },
    {
      title: 'In flight',
      description:
        'Open requests, how many are let in at most (less than gateway.maxInFlight while replicas are late or short of memory), and replicas that drain.',
      kind: 'timeseries',
      unit: 'short',
      width: 8,
      runbook: '#posternslowdrain',
      queries: [
        { expr: gauge('postern_http_requests_in_flight', 'pod'), legend: '{{pod}}' },
        { expr: gauge('postern_http_in_flight_limit', 'pod'), legend: '{{pod}} lets in' },
        { expr: gauge('postern_draining'), legend: 'draining replicas' },
      ],
    },
    {
      title: 'Clients that left',
      description:
        'While their key was looked up, while the upstream was waited for, while the answer was sent.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 8,
      queries: [{ expr: rate('postern_http_client_aborts_total', 'phase'), legend: '{{phase}}' }],
    },
    {
      title: 'Rate limits',
      description: 'Decisions by policy of limits.policies; nothing where there are none. `limited`: 429.',
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
      title: 'Rate limits, counted by',
      description: '`redis`: all gateways together. `local`: each by itself, for its part of the limit.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 12,
      runbook: '#posternratelimiterlocalmode',
      queries: [{ expr: rate('postern_ratelimit_decisions_total', 'backend'), legend: '{{backend}}' }],
    },
  ],
}

/** Empty unless somebody asked for it: metrics.workspaces is. */
const workspaces: Row = {
  title: 'Workspaces',
  panels: [
    {
      title: 'Requests by workspace',
      description:
        'With a known key, of the workspaces that metrics.workspaces names. `other`: of all that it does not. Nothing where it names none.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 16,
      stacked: true,
      queries: [{ expr: rate('postern_workspace_requests_total', 'workspace'), legend: '{{workspace}}' }],
    },
    {
      title: 'Not named',
      description: '1 where in the last five minutes a request was counted as `other`.',
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
      description: 'Every request waits at least so long. About 10 ms is what measuring itself shows.',
      kind: 'timeseries',
      unit: 's',
      width: 6,
      runbook: '#posterneventlooplaghigh',
      queries: [{ expr: gauge('nodejs_eventloop_lag_p99_seconds', 'pod', '', 'max'), legend: '{{pod}}' }],
    },
    {
      title: 'Processor',
      description: 'Cores in use. One core runs all of the program’s own code.',
      kind: 'timeseries',
      unit: 'none',
      width: 6,
      queries: [{ expr: rate('process_cpu_seconds_total', 'pod'), legend: '{{pod}}' }],
    },
    {
      title: 'Heap in use',
      description: 'Of what a process may have.',
      kind: 'timeseries',
      unit: 'percentunit',
      width: 6,
      runbook: '#posternheapnearlimit',
      queries: [
        {
          expr: `max by (pod) (nodejs_heap_size_used_bytes{${CHOSEN}} / postern_heap_limit_bytes{${CHOSEN}})`,
          legend: '{{pod}}',
        },
      ],
    },
    {
      title: 'Resident memory',
      description: 'What Kubernetes’ limit is compared with.',
      kind: 'timeseries',
      unit: 'bytes',
      width: 6,
      queries: [{ expr: gauge('process_resident_memory_bytes', 'pod'), legend: '{{pod}}' }],
    },
    {
      title: 'Garbage collection',
      description: 'Share of time, by kind.',
      kind: 'timeseries',
      unit: 'percentunit',
      width: 6,
      queries: [{ expr: rate('nodejs_gc_duration_seconds_sum', 'kind'), legend: '{{kind}}' }],
    },
    {
      title: 'Open files',
      description: 'Sockets are most of them.',
      kind: 'timeseries',
      unit: 'short',
      width: 6,
      queries: [{ expr: gauge('process_open_fds', 'pod'), legend: '{{pod}}' }],
    },
    {
      title: 'Settings read',
      description:
        '1 where those in use are those that were read last, 0 where these were of no use; and how long ago that was.',
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
      title: 'Running for',
      description: 'It falls to 0 where a process begins anew.',
      kind: 'timeseries',
      unit: 's',
      width: 6,
      queries: [
        { expr: `time() - ${gauge('process_start_time_seconds', 'pod', '', 'max')}`, legend: '{{pod}}' },
      ],
    },
    {
      title: 'Scraped',
      description: '1 while Prometheus reaches a process.',
      kind: 'timeseries',
      unit: 'none',
      max: 1,
      width: 6,
      runbook: '#posterntargetdown',
      queries: [{ expr: `max by (pod) (up{${CHOSEN}})`, legend: '{{pod}}' }],
    },
    {
      title: 'Log lines dropped',
      description: 'Standard output was read too slowly. Requests were not delayed.',
      kind: 'timeseries',
      unit: 'short',
      width: 6,
      queries: [{ expr: rate('postern_log_lines_dropped_total', 'pod'), legend: '{{pod}}' }],
    },
    {
      title: 'Clock ahead of the console',
      description: 'Keys expire so much too early; below zero, so much too late.',
      kind: 'timeseries',
      unit: 's',
      width: 6,
      runbook: '#posternclockskew',
      queries: [{ expr: gauge('postern_clock_skew_seconds', 'pod', '', 'max'), legend: '{{pod}}' }],
    },
  ],
}

export const gatewayBoard: Board = {
  uid: 'postern-gateway',
  file: 'gateway',
  title: 'Postern / Gateway',
  description:
    'Requests on their way through the gateway: what they got, how long it took, and what they waited for.',
  byRoute: true,
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
