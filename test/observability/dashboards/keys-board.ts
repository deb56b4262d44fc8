import { type Board, CHOSEN, CHOSEN_JOB, gauge, quantile, type Row, rate, share } from './board.ts'
import { nodejs } from './gateway-board.ts'

const LAG = 'postern_key_invalidation_lag_seconds'

const keys: Row = {
  title: 'Keys',
  panels: [
    {
      title: 'Keys now',
      description:
        'In the database. `expiring`: they work for less than a week more. Counted every 15 seconds.',
      kind: 'stat',
      unit: 'short',
      width: 8,
      // Each console counts the one database that they share.
      queries: [{ expr: gauge('postern_keys', 'state', '', 'max'), legend: '{{state}}' }],
    },
    {
      title: 'Keys',
      description: 'Over time.',
      kind: 'timeseries',
      unit: 'short',
      width: 8,
      queries: [{ expr: gauge('postern_keys', 'state', '', 'max'), legend: '{{state}}' }],
    },
    {
      title: 'Operations',
      description: '`unchanged`: it was so already. `refused`: the caller’s mistake. `failed`: ours.',
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
  title: 'The promise on revocation: refused by every replica within a second',
  panels: [
    {
      title: 'Kept',
      description: 'Share of changes that were in effect on a replica within a second of their commit.',
      kind: 'stat',
      unit: 'percentunit',
      width: 5,
      limits: [0.9999, 0.999],
      runbook: '#posternrevocationlaghigh',
      queries: [
        {
          expr: share(
            `sum(increase(${LAG}_bucket{${CHOSEN},le="1"}[$__range]))`,
            `sum(increase(${LAG}_count{${CHOSEN}}[$__range]))`,
          ),
          legend: 'within 1 s',
        },
      ],
    },
    {
      title: 'From commit to effect',
      description: 'p99 is below 100 ms while Redis is up.',
      kind: 'timeseries',
      unit: 's',
      width: 7,
      runbook: '#posternrevocationlaghigh',
      queries: [
        { expr: quantile(0.5, LAG), legend: 'p50' },
        { expr: quantile(0.99, LAG), legend: 'p99' },
        {
          expr: `max(job:postern_key_invalidation_lag_seconds:p99_rate5m{${CHOSEN_JOB}})`,
          legend: 'p99, as the alert sees it',
        },
      ],
    },
    {
      title: 'Changes received',
      description:
        '`unknown_key`: no record was cached. `unreadable`: the message was invalid, so the whole cache is untrusted.',
      kind: 'timeseries',
      unit: 'ops',
      width: 6,
      queries: [{ expr: rate('postern_key_invalidations_total', 'result'), legend: '{{result}}' }],
    },
    {
      title: 'Disconnected gateways',
      description: 'They ask the key service for each key.',
      kind: 'timeseries',
      unit: 'short',
      width: 6,
      runbook: '#posternrevocationstreamdown',
      queries: [{ expr: `sum(1 - postern_key_invalidation_connected{${CHOSEN}})`, legend: 'disconnected' }],
    },
  ],
}

const admin: Row = {
  title: 'Console',
  panels: [
    {
      title: 'Admin API by operation',
      description: 'Requests a second. Lookups of gateways are not among them.',
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
      title: 'People signing in',
      description:
        '`denied`: by the provider. `invalid`: what came back did not fit. `unavailable`: the provider did not answer. `limited`: too many from one address.',
      kind: 'timeseries',
      unit: 'ops',
      width: 4,
      queries: [{ expr: rate('postern_login_total', 'outcome'), legend: '{{outcome}}' }],
    },
    {
      title: 'Requests of gateways',
      description:
        'To the internal listener, a second, by status. `failed handshakes`: a client without a certificate that the console trusts.',
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
      description: 'As the gateways count them.',
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
      title: 'Waiting to be announced',
      description: 'Committed changes that are not published yet. Above 0 for long: Redis is down.',
      kind: 'timeseries',
      unit: 'short',
      width: 4,
      runbook: '#posternrevocationstreamdown',
      // Each console counts the one database that they share.
      queries: [{ expr: gauge('postern_outbox_pending', '', '', 'max'), legend: 'changes' }],
    },
    {
      title: 'Webhook',
      description:
        'Attempts a second. `given_up`: the event was not delivered, see the delivery log in the console.',
      kind: 'timeseries',
      unit: 'ops',
      width: 5,
      queries: [{ expr: rate('postern_webhook_deliveries_total', 'outcome'), legend: '{{outcome}}' }],
    },
    {
      title: 'Audit trail, failed writes',
      description: 'In this range of time. Must stay 0: each is a change that was refused.',
      kind: 'stat',
      unit: 'short',
      width: 4,
      limits: [1, 1],
      runbook: '#posternauditwritefailing',
      queries: [
        { expr: `sum(increase(postern_audit_write_failures_total{${CHOSEN}}[$__range]))`, legend: 'failed' },
      ],
    },
  ],
}

const redis: Row = {
  title: 'Redis',
  panels: [
    {
      title: 'Failed commands',
      description: 'Share of all, as the alert sees it.',
      kind: 'timeseries',
      unit: 'percentunit',
      max: 1,
      width: 8,
      runbook: '#posternkeystoreunavailable',
      queries: [
        { expr: `max by (job) (job:postern_redis_errors:ratio_rate2m{${CHOSEN_JOB}})`, legend: '{{job}}' },
      ],
    },
    {
      title: 'Time of a command, p99',
      description: 'As the alert sees it.',
      kind: 'timeseries',
      unit: 's',
      width: 8,
      runbook: '#posternkeystoredegraded',
      queries: [
        {
          expr: `max by (job) (job:postern_redis_command_duration_seconds:p99_rate5m{${CHOSEN_JOB}})`,
          legend: '{{job}}',
        },
      ],
    },
    {
      title: 'Certificates expire in',
      description: 'Of those that new connections are made with.',
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

export const keysBoard: Board = {
  uid: 'postern-keys',
  file: 'keys-and-console',
  title: 'Postern / Keys and console',
  description: 'Keys, what is done with them, and how fast it takes effect.',
  byRoute: false,
  rows: [keys, promise, admin, redis, nodejs],
}
