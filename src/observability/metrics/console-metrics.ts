import type { MetricDeclarations } from './metric-handles.ts'

export function declareConsole({ counter, gauge }: MetricDeclarations) {
  return {
    adminRequests: counter(
      'postern_admin_requests_total',
      'Requests to the admin API, by operation and status code',
      ['operation', 'code'],
    ),
    internalRequests: counter(
      'postern_internal_requests_total',
      'Requests to the internal listener, by operation and status code',
      ['operation', 'code'],
    ),
    internalTlsFailures: counter(
      'postern_internal_tls_failures_total',
      'Failed TLS handshakes at the internal listener',
    ),
    gatewayDrains: counter(
      'postern_gateway_drains_total',
      'Drains of gateways that signed off, by outcome; `timed_out` ones cut requests off',
      ['outcome'],
    ),
    usageReports: counter(
      'postern_usage_reports_received_total',
      'Usage reports of gateways, by outcome; `repeated` ones were stored before, `failed` and `overloaded` ones are sent again',
      ['outcome'],
    ),
    usageEntriesRefused: counter(
      'postern_usage_entries_refused_total',
      'Entries of usage reports that are not valid, by list',
      ['list'],
    ),
    leakReports: counter(
      'postern_leak_reports_total',
      'Reports of leaked keys, by reporter and outcome; one for each token, or for a request that was not accepted',
      ['reporter', 'outcome'],
    ),
    ...declareRegions({ gauge }),
    ...declareSchema({ gauge }),
    keyOperations: counter('postern_key_operations_total', 'Key operations, by operation and outcome', [
      'operation',
      'outcome',
    ]),
    logins: counter('postern_login_total', 'Completed sign-in attempts, by outcome', ['outcome']),
    keys: gauge(
      'postern_keys',
      'Keys in the database, by state; `expiring`: within 7 days, `expiring_30d`: within 7 to 30 days',
      ['state'],
    ),
    webhookDeliveries: counter(
      'postern_webhook_deliveries_total',
      'Webhook delivery attempts, by receiver (the operator’s webhook or those of workspaces) and outcome; `failed` ones are retried, `given_up` ones are not',
      ['receiver', 'outcome'],
    ),
    ...declareDatabase({ counter }),
    ...declareAudit({ counter }),
  }
}

function declareAudit({ counter }: Pick<MetricDeclarations, 'counter'>) {
  return {
    auditWriteFailures: counter(
      'postern_audit_write_failures_total',
      'Changes rejected because the audit entry could not be written',
    ),
    auditRejections: counter(
      'postern_audit_entries_rejected_total',
      'Audit entries neither shown nor added to the chain, since no console wrote them or their signing secret is not given; each reading counts',
    ),
    auditHeadsLost: counter(
      'postern_audit_heads_lost_total',
      'Heads of the audit chain, noted an hour earlier, that were no longer in it',
    ),
  }
}

function declareRegions({ gauge }: Pick<MetricDeclarations, 'gauge'>) {
  return {
    outboxPending: gauge('postern_outbox_pending', 'Committed changes not yet announced to the gateways'),
    regionUp: gauge(
      'postern_region_up',
      '1 while the Redis of a region answers the console, else 0; `default` without regions',
      ['region'],
    ),
    regionPending: gauge(
      'postern_region_outbox_pending',
      'Committed changes not yet announced to the gateways of a region',
      ['region'],
    ),
    regionPendingAge: gauge(
      'postern_region_outbox_age_seconds',
      'Time since the commit of the oldest change not yet announced to a region, in seconds; 0 if there is none',
      ['region'],
    ),
  }
}

function declareSchema({ gauge }: Pick<MetricDeclarations, 'gauge'>) {
  return {
    schemaDifferences: gauge(
      'postern_database_schema_differences',
      'Tables, indexes, triggers and other objects of the database that are not as the migrations make them, at the start of the console, by kind; `unknown`: 1 if they could not be compared',
      ['kind'],
    ),
  }
}

function declareDatabase({ counter }: Pick<MetricDeclarations, 'counter'>) {
  return {
    databaseErrors: counter(
      'postern_database_errors_total',
      'Errors of the console’s database, by kind; `busy`: locks or connections that others hold',
      ['kind'],
    ),
  }
}
