import type { MetricDeclarations } from './metric-declarations.ts'

/** Metrics of every process. */
export function declareProcess({ counter, gauge }: MetricDeclarations) {
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
      'Log lines dropped because the log output stalled',
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
export function declareGatewayRegion({ gauge }: MetricDeclarations) {
  return {
    gatewayRegion: gauge(
      'postern_gateway_region_info',
      'Constant 1, labelled with the region of the gateway; `default` without one',
      ['region'],
    ),
  }
}

/** Requests of the workspaces named in `metrics.workspaces`. No other metric has a workspace as a label. */
export function declareWorkspaces({ counter, collected }: MetricDeclarations) {
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
