import {
  type Dashboard,
  gauge,
  quantile,
  type Row,
  rate,
  ratio,
  SELECTED,
  SELECTED_JOB,
} from './dashboard.ts'
import { nodejs } from './gateway-dashboard.ts'
import { regions } from './regions-row.ts'

const LAG = 'postern_key_invalidation_lag_seconds'

const keys: Row = {
  title: 'Keys',
  panels: [
    {
      title: 'Keys',
      description:
        'Keys in the database by state, counted every 15 s. `expiring`: within 7 days. `expiring_30d`: within 7 to 30 days.',
      kind: 'stat',
      unit: 'short',
      width: 8,
      // Each console counts the one database that they share.
      queries: [{ expr: gauge('postern_keys', 'state', '', 'max'), legend: '{{state}}' }],
    },
    {
      title: 'Keys over time',
      description: 'Keys in the database by state.',
      kind: 'timeseries',
      unit: 'short',
      width: 8,
      queries: [{ expr: gauge('postern_keys', 'state', '', 'max'), legend: '{{state}}' }],
    },
    {
      title: 'Operations',
      description:
        'By outcome. `unchanged`: no change was needed. `refused`: rejected as invalid. `failed`: internal error.',
      kind: 'timeseries',
      unit: 'ops',
      width: 8,
      queries: [
        {
          expr: rate('postern_key_operations_total', 'operation, outcome'),
          legend: '{{operation}} {{outcome}}',
        },
      ],
    },
  ],
}

const promise: Row = {
  title: 'Revocation guarantee: connected gateways reject a revoked key within 1 s',
  panels: [
    {
      title: 'Changes applied within 1 s',
      description: 'Share of changes that connected gateways applied within 1 s of the commit.',
      kind: 'stat',
      unit: 'percentunit',
      width: 5,
      thresholds: [0.9999, 0.999],
      runbook: '#posternrevocationlaghigh',
      queries: [
        {
          expr: ratio(
            `sum(increase(${LAG}_bucket{${SELECTED},le="1"}[$__range]))`,
            `sum(increase(${LAG}_count{${SELECTED}}[$__range]))`,
          ),
          legend: 'within 1 s',
        },
      ],
    },
    {
      title: 'Revocation lag',
      description:
        'Time from the commit of a change to its invalidation at a gateway. Below 100 ms (p99) while Redis is up.',
      kind: 'timeseries',
      unit: 's',
      width: 7,
      runbook: '#posternrevocationlaghigh',
      queries: [
        { expr: quantile(0.5, LAG), legend: 'p50' },
        { expr: quantile(0.99, LAG), legend: 'p99' },
        {
          expr: `max(job:postern_key_invalidation_lag_seconds:p99_rate5m{${SELECTED_JOB}})`,
          legend: 'p99 of the alert',
        },
      ],
    },
    {
      title: 'Changes received',
      description:
        'Invalidation messages by result. `unknown_key`: memory held no record. `unverified`: without a valid MAC. `unreadable`: malformed.',
      kind: 'timeseries',
      unit: 'ops',
      width: 6,
      queries: [{ expr: rate('postern_key_invalidations_total', 'result'), legend: '{{result}}' }],
    },
    {
      title: 'Disconnected gateways',
      description: 'Gateways that verify each key at the key service.',
      kind: 'timeseries',
      unit: 'short',
      width: 6,
      runbook: '#posternrevocationstreamdown',
      queries: [{ expr: `sum(1 - postern_key_invalidation_connected{${SELECTED}})`, legend: 'disconnected' }],
    },
  ],
}

const admin: Row = {
  title: 'Console',
  panels: [
    {
      title: 'Admin API by operation',
      description: 'Requests a second, without lookups of gateways.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 4,
      queries: [{ expr: rate('postern_admin_requests_total', 'operation'), legend: '{{operation}}' }],
    },
    {
      title: 'Admin API by status',
      description: 'Requests a second.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 4,
      queries: [{ expr: rate('postern_admin_requests_total', 'code'), legend: '{{code}}' }],
    },
    {
      title: 'Sign-ins',
      description:
        'By outcome. `denied`: by the provider. `invalid`: the response of the provider failed a check. `unavailable`: the provider did not respond. `limited`: too many attempts from one address.',
      kind: 'timeseries',
      unit: 'ops',
      width: 4,
      queries: [{ expr: rate('postern_login_total', 'outcome'), legend: '{{outcome}}' }],
    },
    {
      title: 'Requests from gateways',
      description:
        'To the internal listener, by operation and status. `failed handshakes`: TLS handshakes that failed, such as without a trusted client certificate.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 4,
      queries: [
        {
          expr: rate('postern_internal_requests_total', 'operation, code'),
          legend: '{{operation}} {{code}}',
        },
        { expr: rate('postern_internal_tls_failures_total'), legend: 'failed handshakes' },
      ],
    },
    {
      title: 'Lookups at the key service',
      description: 'Counted by the gateways.',
      kind: 'timeseries',
      unit: 'ops',
      width: 4,
      queries: [
        {
          expr: rate('postern_key_cache_lookups_total', 'result', 'tier="key_service"'),
          legend: '{{result}}',
        },
      ],
    },
    {
      title: 'Unannounced changes',
      description: 'Committed changes not yet published. If it stays above 0, Redis is down.',
      kind: 'timeseries',
      unit: 'short',
      width: 4,
      runbook: '#posternrevocationstreamdown',
      // Each console counts the one database that they share.
      queries: [{ expr: gauge('postern_outbox_pending', '', '', 'max'), legend: 'changes' }],
    },
    {
      title: 'Webhook deliveries',
      description:
        'Attempts a second. `given_up`: the event was not delivered; see the delivery log in the console.',
      kind: 'timeseries',
      unit: 'ops',
      width: 5,
      queries: [{ expr: rate('postern_webhook_deliveries_total', 'outcome'), legend: '{{outcome}}' }],
    },
    {
      title: 'Usage reports',
      description:
        'From gateways, by outcome. `repeated`: stored before. `failed` and `overloaded`: the gateway sends them again.',
      kind: 'timeseries',
      unit: 'ops',
      width: 8,
      queries: [
        { expr: rate('postern_usage_reports_received_total', 'outcome'), legend: '{{outcome}}' },
        { expr: rate('postern_usage_entries_refused_total', 'list'), legend: 'invalid: {{list}}' },
      ],
    },
    {
      title: 'Reports of leaked keys',
      description:
        'Tokens a second, by reporter and outcome. `revoked` and `reported`: keys of yours. `unknown`: none. `invalid`, `limited` and `failed`: requests that were not handled.',
      kind: 'timeseries',
      unit: 'ops',
      width: 7,
      runbook: '#posternleakreportsfailing',
      queries: [
        { expr: rate('postern_leak_reports_total', 'reporter, outcome'), legend: '{{reporter}} {{outcome}}' },
      ],
    },
    {
      title: 'Errors of the database',
      description: 'A second, by kind; must stay 0 but for a failover.',
      kind: 'timeseries',
      unit: 'ops',
      width: 5,
      runbook: '#posterndatabasefailing',
      queries: [{ expr: rate('postern_database_errors_total', 'kind'), legend: '{{kind}}' }],
    },
    {
      title: 'Failed audit writes',
      description: 'In the selected time range. Each is a rejected change; must stay 0.',
      kind: 'stat',
      unit: 'short',
      width: 4,
      thresholds: [1, 1],
      runbook: '#posternauditwritefailing',
      queries: [
        {
          expr: `sum(increase(postern_audit_write_failures_total{${SELECTED}}[$__range]))`,
          legend: 'failed',
        },
      ],
    },
    {
      title: 'Audit entries rejected',
      description:
        'In the selected time range: entries that no console wrote or that cannot be verified, and lost heads. Must stay 0.',
      kind: 'stat',
      unit: 'short',
      width: 4,
      thresholds: [1, 1],
      runbook: '#posternaudittampered',
      queries: [
        {
          expr: `sum(increase(postern_audit_entries_rejected_total{${SELECTED}}[$__range]))`,
          legend: 'rejected',
        },
        {
          expr: `sum(increase(postern_audit_heads_lost_total{${SELECTED}}[$__range]))`,
          legend: 'heads lost',
        },
      ],
    },
  ],
}

const usage: Row = {
  title: 'Usage of keys, reported by the gateways',
  panels: [
    {
      title: 'Usage reports',
      description: 'By outcome. `failed`: to be repeated. `rejected`: dropped.',
      kind: 'timeseries',
      unit: 'ops',
      width: 5,
      queries: [{ expr: rate('postern_usage_reports_sent_total', 'outcome'), legend: '{{outcome}}' }],
    },
    {
      title: 'Usage exports',
      description:
        'Requests to the collector of `usage.export.url`, by outcome. `failed`: to be repeated. `dropped`: lost.',
      kind: 'timeseries',
      unit: 'ops',
      width: 4,
      queries: [{ expr: rate('postern_usage_exports_total', 'outcome'), legend: '{{outcome}}' }],
    },
    {
      title: 'Usage report delay',
      description: 'Time for which a gateway has repeated the same report. Its counts wait in memory.',
      kind: 'timeseries',
      unit: 's',
      width: 5,
      runbook: '#posternusagereportslate',
      queries: [{ expr: gauge('postern_usage_report_delay_seconds', 'pod', '', 'max'), legend: '{{pod}}' }],
    },
    {
      title: 'Unreported usage',
      description:
        'Entries in the memory of a gateway: one for each key, route and outcome (`usage.maxEntries`).',
      kind: 'timeseries',
      unit: 'short',
      width: 5,
      queries: [{ expr: gauge('postern_usage_entries', 'pod', '', 'max'), legend: '{{pod}}' }],
    },
    {
      title: 'Requests missing in usage',
      description:
        'Requests a second. `memory` and `refused`: lost. `by workspace`: counted without their key. `refusals`: counted, but not shown one by one.',
      kind: 'timeseries',
      unit: 'reqps',
      width: 5,
      runbook: '#posternusagelost',
      queries: [
        { expr: rate('postern_usage_lost_total', 'cause'), legend: '{{cause}}' },
        { expr: rate('postern_usage_folded_total'), legend: 'by workspace' },
        { expr: rate('postern_usage_refusals_omitted_total'), legend: 'refusals' },
      ],
    },
  ],
}

const redis: Row = {
  title: 'Redis',
  panels: [
    {
      title: 'Failed commands',
      description: 'Share of all commands, as in the alert.',
      kind: 'timeseries',
      unit: 'percentunit',
      max: 1,
      width: 8,
      runbook: '#posternkeystoreunavailable',
      queries: [
        { expr: `max by (job) (job:postern_redis_errors:ratio_rate2m{${SELECTED_JOB}})`, legend: '{{job}}' },
      ],
    },
    {
      title: 'Command duration, p99',
      description: 'As in the alert.',
      kind: 'timeseries',
      unit: 's',
      width: 8,
      runbook: '#posternkeystoredegraded',
      queries: [
        {
          expr: `max by (job) (job:postern_redis_command_duration_seconds:p99_rate5m{${SELECTED_JOB}})`,
          legend: '{{job}}',
        },
      ],
    },
    {
      title: 'Certificate expiry',
      description: 'Time until the certificates used for new connections expire.',
      kind: 'timeseries',
      unit: 's',
      width: 8,
      runbook: '#posterncertificateexpiring',
      queries: [
        {
          expr: `${gauge('postern_tls_cert_not_after_seconds', 'purpose', '', 'min')} - time()`,
          legend: '{{purpose}}',
        },
      ],
    },
  ],
}

export const keysDashboard: Dashboard = {
  uid: 'postern-keys',
  file: 'keys-and-console',
  title: 'Postern / Keys and console',
  description: 'Keys, revocation lag, and the console.',
  byRoute: false,
  rows: [keys, promise, regions, admin, usage, redis, nodejs],
}
