import type { Declaring } from './metrics.ts'

export function declareConsole({ counter, gauge }: Declaring) {
  return {
    adminRequests: counter('postern_admin_requests_total', 'Requests to the admin API', [
      'operation',
      'code',
    ]),
    internalRequests: counter('postern_internal_requests_total', 'Requests to the internal listener', [
      'operation',
      'code',
    ]),
    internalTlsFailures: counter(
      'postern_internal_tls_failures_total',
      'TLS handshakes that failed at the internal listener',
    ),
    outboxPending: gauge(
      'postern_outbox_pending',
      'Committed changes that gateways have not been told of yet',
    ),
    keyOperations: counter('postern_key_operations_total', 'Keys issued, rotated and revoked', [
      'operation',
      'outcome',
    ]),
    logins: counter('postern_login_total', 'Attempts of people to sign in that came to an end', ['outcome']),
    keys: gauge(
      'postern_keys',
      'Keys in the database; `expiring` ones work for less than a week more, `expiring_30d` ones for 7 to 30 days',
      ['state'],
    ),
    webhookDeliveries: counter(
      'postern_webhook_deliveries_total',
      'Attempts to tell the webhook; `failed` ones are repeated, `given_up` ones were the last',
      ['outcome'],
    ),
    auditWriteFailures: counter(
      'postern_audit_write_failures_total',
      'Changes that were refused because they could not be written to the audit trail',
    ),
  }
}
