import type { Declaring } from './metrics.ts'

/** Of every process, whatever runs in it. */
export function declareProcess({ counter, gauge }: Declaring) {
  return {
    draining: gauge('postern_draining', '1 after SIGTERM'),
    buildInfo: gauge('postern_build_info', 'Constant 1', ['version', 'revision', 'node']),
    configInfo: gauge('postern_config_info', 'Constant 1; a short hash of the settings without secrets', [
      'plane',
      'hash',
    ]),
    certificateNotAfter: gauge(
      'postern_tls_cert_not_after_seconds',
      'When a certificate that new connections are made with expires, in seconds since the epoch',
      ['purpose'],
    ),
    logLinesDropped: counter(
      'postern_log_lines_dropped_total',
      'Log lines that were not written because nobody took them',
    ),
    configReloadSuccess: gauge(
      'postern_config_last_reload_success',
      '1 where the settings in use are those that were read last, 0 where these could not be used',
    ),
    configReloadTimestamp: gauge(
      'postern_config_last_reload_timestamp_seconds',
      'When settings were last read, used or not, in seconds since the epoch',
    ),
    heapLimit: gauge('postern_heap_limit_bytes', 'Size of the heap at which the process would end'),
  }
}

/** Only where somebody asked for them: the one place where a label is a workspace, and then of a list that they wrote. */
export function declareWorkspaces({ counter, gauge }: Declaring) {
  return {
    workspaceRequests: counter(
      'postern_workspace_requests_total',
      'Requests with a known key, by its workspace; `other` are those of workspaces that nobody named',
      ['workspace'],
    ),
    workspacesFolded: gauge(
      'postern_workspace_series_folded',
      '1 where in the last five minutes a request was counted as `other`',
    ),
  }
}
